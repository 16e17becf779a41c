#include "runtime/params/protocol/node.hpp"

#include <algorithm>
#include <utility>

#include "runtime/transport/net/frame.hpp"

namespace hocket::params {

using transport::ProtocolError;

Node::Node(Worker self, std::size_t chunks, Arithmetic& arithmetic, Staleness staleness)
    : self_(self),
      staleness_(staleness),
      arithmetic_(arithmetic),
      applied_(chunks),
      cache_(chunks),
      wants_(chunks) {}

// ---- Calls of the worker ---------------------------------------------------------------------------------

void Node::push(Chunk chunk, Clock round, Value update) {
    const Place place{round, chunk};
    next_round_ = std::max(next_round_, round + 1);
    updates_.emplace(place, update);
    partial_[place].emplace(self_, Sum{epoch_, chunk, round, {self_}, std::move(update)});
    pass_on_if_complete(place);
}

void Node::pull(Chunk chunk, Clock clock) {
    Wants& wants = wants_[chunk];
    wants.own.insert(staleness_ ? clock : ++wants.pulls);
    serve(chunk);
    ask(chunk);
}

// ---- Messages from others --------------------------------------------------------------------------------

void Node::receive(Worker from, const Message& message) {
    if (std::holds_alternative<ParentLost>(message)) throw ProtocolError("it treats a worker as a server");
    const bool is_servers =
        std::holds_alternative<Announcement>(message) || std::holds_alternative<Covered>(message);
    if (is_servers && from != the_server) throw ProtocolError("it sent a note that only servers send");
    if (const auto* const announcement = std::get_if<Announcement>(&message)) return take(*announcement);
    if (const auto* const sum = std::get_if<Sum>(&message)) {
        if (!is_for_later(from, message, sum->epoch)) take(from, *sum);
    } else if (const auto* const want = std::get_if<Want>(&message)) {
        if (!is_for_later(from, message, want->epoch)) take(from, *want);
    } else if (const auto* const weights = std::get_if<Weights>(&message)) {
        if (from == parent_) take(*weights);
    } else if (const auto* const covered = std::get_if<Covered>(&message)) {
        if (covered->epoch.incarnation == epoch_.incarnation) forget_below(covered->clock);
    }
}

// Returns true if the message is not of the current epoch. Keeps messages of a later epoch, and per sender
// only those of the latest: a child may hear of one epoch or several before its parent does, and its wants
// overtake its sums.
bool Node::is_for_later(Worker from, const Message& message, const Epoch& epoch) {
    if (epoch > epoch_) {
        auto& early = early_[from];
        if (!early.empty() && early.back().first < epoch) early.clear();
        if (early.empty() || early.back().first == epoch) early.emplace_back(epoch, message);
    }
    return epoch != epoch_;  // older messages are dropped: the child sends them again if it must
}

// Handles messages that came before their epoch was announced. An error in one can no longer be blamed on the
// connection.
void Node::take_early() {
    for (const auto& [from, messages] : std::exchange(early_, {}))
        for (const auto& [epoch, message] : messages) try {
                receive(from, message);
            } catch (const ProtocolError&) {
            }
}

std::size_t Node::early(Worker child) const {
    const auto found = early_.find(child);
    return found == early_.end() ? 0 : found->second.size();
}

void Node::take(const Announcement& announcement) {
    std::map<Worker, Member> members;
    for (const Member& member : announcement.members) members.emplace(member.worker, member);
    if (announcement.epoch <= epoch_ || !members.contains(self_)) return;
    if (announcement.epoch.incarnation != epoch_.incarnation)  // its clocks may stand for other rounds
        std::fill(cache_.begin(), cache_.end(), Cached{});
    epoch_ = announcement.epoch;
    has_recollected_ = false;
    members_ = announcement.members;
    departed_ = announcement.departed;
    expected_ = announcement.expected;
    applied_ = announcement.clocks;
    below_.clear();
    for (const auto& [worker, member] : members) {
        Worker child = worker;
        while (child != the_server && child != self_ && members.at(child).parent != self_)
            child = members.at(child).parent;
        if (child == self_) continue;  // skip this node itself
        if (child != the_server) below_[child].emplace(worker, member.first);
    }
    parent_ = members.at(self_).parent;
    first_ = members.at(self_).first;
    next_round_ = std::max(next_round_, first_);

    partial_.clear();
    for (const auto& [place, update] : updates_)
        if (place.first >= applied_[place.second])
            partial_[place].emplace(self_, Sum{epoch_, place.second, place.first, {self_}, update});
    for (Wants& wants : wants_) {
        wants.asked.clear();
        wants.children.clear();
    }
    std::vector<Place> places;
    for (const auto& [place, parts] : partial_) places.push_back(place);
    for (const Place& place : places) pass_on_if_complete(place);
    for (Chunk chunk = 0; chunk < wants_.size(); ++chunk) ask(chunk);
    take_early();
}

// ---- Updates, on their way up ----------------------------------------------------------------------------

void Node::take(Worker from, const Sum& sum) {
    const auto child = below_.find(from);
    if (sum.chunk >= applied_.size() || child == below_.end()) return;
    const auto is_elsewhere = [&](Worker worker) { return !child->second.contains(worker); };
    if (std::any_of(sum.workers.begin(), sum.workers.end(), is_elsewhere))
        throw ProtocolError("it sent updates of workers that are not below it in the tree");
    const Place place{sum.clock, sum.chunk};
    partial_[place].emplace(from, sum);
    pass_on_if_complete(place);
}

void Node::pass_on_if_complete(Place place) {
    const auto [clock, chunk] = place;
    const auto found = partial_.find(place);
    if (found == partial_.end()) return;
    auto& parts = found->second;
    const auto takes_part = [clock = clock](const auto& worker) { return worker.second <= clock; };
    if (first_ <= clock && !parts.contains(self_)) return;
    for (const auto& [child, workers] : below_)
        if (!parts.contains(child) && std::any_of(workers.begin(), workers.end(), takes_part)) return;
    if (epoch_.number == 0) return;  // it has no parent yet

    Sum sum{epoch_, chunk, clock, {}, nullptr};
    std::vector<Value> values;
    for (const auto& [from, part] : parts) {
        sum.workers.insert(sum.workers.end(), part.workers.begin(), part.workers.end());
        values.push_back(part.value);
    }
    std::sort(sum.workers.begin(), sum.workers.end());
    sum.value = values.size() == 1 ? values[0] : arithmetic_.sum(chunk, values);
    partial_.erase(found);
    send(parent_, std::move(sum));
}

void Node::forget_below(Clock clock) {
    updates_.erase(updates_.begin(), updates_.lower_bound({clock, 0}));
    covered_ = std::max(covered_, clock);
}

// ---- Weights, on their way down --------------------------------------------------------------------------

void Node::take(Worker from, const Want& want) {
    if (want.chunk >= wants_.size() || !below_.contains(from)) return;
    wants_[want.chunk].children[from].insert(want.clock);
    serve(want.chunk);
    ask(want.chunk);
}

void Node::take(const Weights& weights) {
    if (weights.chunk >= cache_.size() || weights.epoch.incarnation != epoch_.incarnation || has_recollected_)
        return;
    seen_ = std::max(seen_, weights.clock);
    if (!staleness_) return take_unbounded(weights);
    Cached& cached = cache_[weights.chunk];
    if (cached.value && weights.clock <= cached.clock) return;
    cached = {weights.clock, weights.value};
    auto& asked = wants_[weights.chunk].asked;
    asked.erase(asked.begin(), asked.upper_bound(weights.clock));
    serve(weights.chunk);
    if (!keeps_weights()) cached = {};
}

// The server answers wants one by one, in order. So the answer to a pull contains the updates that the worker
// pushed before it.
void Node::take_unbounded(const Weights& weights) {
    auto& [own, asked, children, pulls] = wants_[weights.chunk];
    if (weights.epoch != epoch_ || asked.empty()) return;  // all wants have been sent again in this epoch
    own.erase(*asked.begin());
    asked.erase(asked.begin());
    pulled_.push_back({weights.chunk, weights.clock, weights.value});
}

void Node::serve(Chunk chunk) {
    const Cached& cached = cache_[chunk];
    if (!cached.value) return;
    Wants& wants = wants_[chunk];
    for (auto& [child, clocks] : wants.children) {
        if (clocks.empty() || *clocks.begin() > cached.clock) continue;
        clocks.erase(clocks.begin(), clocks.upper_bound(cached.clock));
        send(child, Weights{epoch_, chunk, cached.clock, cached.value});
    }
    if (wants.own.empty() || *wants.own.begin() > cached.clock) return;
    wants.own.erase(wants.own.begin(), wants.own.upper_bound(cached.clock));
    pulled_.push_back({chunk, cached.clock, cached.value});
}

// Asks for each clock separately: the worker that waits for a later clock may itself be waited for by those
// that need an earlier one first.
void Node::ask(Chunk chunk) {
    if (epoch_.number == 0) return;
    Wants& wants = wants_[chunk];
    const auto ask_for = [&](Clock clock) {
        if (wants.asked.insert(clock).second) send(parent_, Want{epoch_, chunk, staleness_ ? clock : 0});
    };
    for (const Clock clock : wants.own) ask_for(clock);
    for (const auto& [child, clocks] : wants.children)
        for (const Clock clock : clocks) ask_for(clock);
}

Recollection Node::recollect() {
    has_recollected_ = true;
    Recollection result{expected_, departed_, seen_, next_round_};
    for (const Member& member : members_) result.members.push_back({member.worker, member.first});
    return result;
}

void Node::parent_lost() {
    if (parent_ != the_server) send(the_server, ParentLost{epoch_});
}

}  // namespace hocket::params
