#include "runtime/params/protocol/root.hpp"

#include <algorithm>
#include <utility>

#include "runtime/transport/net/frame.hpp"

namespace hocket::params {

using transport::ProtocolError;

namespace {

Clock lowest(const std::vector<Clock>& clocks) {
    return *std::min_element(clocks.begin(), clocks.end());
}

Clock highest(const std::vector<Clock>& clocks) {
    return *std::max_element(clocks.begin(), clocks.end());
}

}  // namespace

Root::Root(Snapshot from, Shape shape, Arithmetic& arithmetic, Staleness staleness)
    : shape_(std::move(shape)),
      arithmetic_(arithmetic),
      epoch_{from.incarnation, 0},
      weights_(std::move(from.weights)),
      clocks_(std::move(from.clocks)),
      waiting_(clocks_.size()),
      staleness_(staleness),
      applied_(std::move(from.applied)),
      departed_(std::move(from.departed)),
      restored_(lowest(clocks_)) {
    for (const auto& [worker, departed] : departed_) {
        saved_departed_.emplace(worker, departed.end);
        departed_before_.insert(worker);
    }
    for (const auto& [worker, first] : from.firsts) members_[worker] = {.first = first, .was_before = true};
    know_members();
}

// ---- Members ---------------------------------------------------------------------------------------------

// The worker has not heard yet that it takes part, so it has pushed nothing, even if it was a member before.
Clock Root::reserve(Worker worker) {
    departed_.erase(worker);
    departed_before_.erase(worker);
    if (!staleness_) {
        members_[worker].first = 0;
        know_members();
        return 0;
    }
    // A worker at clock c has pulled weights of clock c - staleness or later. If this server has replaced
    // another one, those may be the other server's weights, with updates of all workers, including those that
    // have come back.
    const Clock first = std::max(highest(clocks_), pushed_) + *staleness_ + 1;
    members_[worker].first = first;
    return first;
}

std::optional<Clock> Root::first_of(Worker worker) const {
    const auto found = members_.find(worker);
    return found == members_.end() ? std::nullopt : std::optional(found->second.first);
}

// Returns true if a round that the worker would take part in has been applied without it.
bool Root::goes_without(Worker worker, Clock first) const {
    return staleness_ && !members_.contains(worker) && first < highest(clocks_);
}

bool Root::join(Worker worker, int group, Clock first) {
    if (goes_without(worker, first)) return false;
    departed_.erase(worker);
    departed_before_.erase(worker);
    members_[worker] = {.first = first, .group = group, .is_here = true};
    apart_.clear();
    begin_epoch();
    return true;
}

bool Root::resume(Worker worker, int group, const Recollection& recollection) {
    if (departed_.contains(worker) || is_given_up(worker)) return false;
    has_resumed_ = true;
    for (const Expected& member : recollection.members)
        seen_[member.worker] = std::max(seen_[member.worker], recollection.seen);
    pushed_ = std::max(pushed_, recollection.pushed);
    for (const Departed& departed : recollection.departed)
        if (departed.worker != worker) depart(departed);
    for (const Expected& member : recollection.members) {
        if (departed_.contains(member.worker) || goes_without(member.worker, member.first)) continue;
        Clock& first = members_.try_emplace(member.worker, Standing{.was_before = true}).first->second.first;
        // Others may have heard only of the round that was reserved for a worker, which may have joined
        // since, with a later one.
        first = std::max(first, member.first);
    }
    for (const Expected& member : recollection.members) doubt_departure(member.worker, recollection.seen);
    know_members();
    const auto found = members_.find(worker);
    if (found == members_.end()) {
        // The last worker that this server expected may be one of those that have departed.
        begin_epoch();
        return false;
    }
    join(worker, group, found->second.first);
    members_[worker].was_before = true;
    members_[worker].pushed_before = recollection.pushed;
    return true;
}

// Handles a worker that left before this server replaced the other one. What is left of its updates is in
// this server's snapshot or, if it came here before the others and was given up here, too, in the weights.
// The server that went on without it has named those that it knew to be lost. But a worker that comes to this
// server, and did not come to that one, may have seen more.
void Root::depart(const Departed& departed) {
    const auto& [worker, first, end] = departed;
    seen_[worker] = std::max(seen_[worker], end);
    if (const auto known = departed_.find(worker); known != departed_.end())
        return depart_later(known->second, end);
    const auto member = members_.find(worker);
    if (member != members_.end() && member->second.is_here) return;
    missed_.emplace(worker, Lost{worker, std::max(first, staleness_ ? restored_ : applied_by(worker)), end});
    members_.erase(worker);
    applied_.erase(worker);
    departed_.emplace(worker, departed);
}

// Handles a worker that had departed already in this server's snapshot, with fewer updates: it closed in the
// middle of a round, and those of that round were applied after the snapshot.
void Root::depart_later(Departed& known, Clock end) {
    if (end <= known.end) return;
    missed_.emplace(known.worker, Lost{known.worker, std::max(known.end, staleness_ ? restored_ : 0), end});
    known.end = end;
    departed_before_.erase(known.worker);
}

// The same for one that the server before this one had not removed yet, so that nobody has heard how far its
// updates went. seen: by a worker that took it for a member.
void Root::doubt_departure(Worker worker, Clock seen) {
    // Without rounds, the counts of two servers that went on from one checkpoint do not compare.
    if (seen == 0 || !departed_before_.contains(worker) || (staleness_ && seen <= restored_)) return;
    const Clock end = departed_.at(worker).end;
    if (staleness_ && seen <= end) return;
    missed_.emplace(worker, Lost{worker, std::max(end, staleness_ ? restored_ : 0), {}});
    if (!staleness_) departed_before_.erase(worker);  // all that can be said of it is said now
}

Clock Root::applied_by(Worker worker) const {
    if (staleness_) return lowest(clocks_);
    if (const auto found = applied_.find(worker); found != applied_.end()) return lowest(found->second);
    const auto departed = departed_.find(worker);
    return departed == departed_.end() ? 0 : departed->second.end;
}

// Determines how far workers had pushed that have not pushed all of it again: they said so themselves, or the
// weights that others have seen show it. Others can have seen weights only if a worker has resumed. Those who
// come later may have seen more.
void Root::name_what_is_lost() {
    if (!has_resumed_) return;
    for (auto missed = missed_.begin(); missed != missed_.end();) {
        auto& [worker, what] = *missed;
        if (is_given_up(worker)) {
            ++missed;
            continue;
        }
        const auto end = staleness_ ? std::optional(seen_[worker]) : what.end;
        if (!end || what.first < *end) lost_.push_back({worker, what.first, end});
        if (end) what.first = std::max(what.first, *end);
        missed = staleness_ ? std::next(missed) : missed_.erase(missed);
    }
}

void Root::remove(Worker worker) {
    const auto member = members_.find(worker);
    if (member == members_.end()) return;
    Standing& standing = member->second;
    if (standing.was_before)
        missed_.emplace(worker,
                        Lost{worker, std::max(standing.first, applied_by(worker)), standing.pushed_before});
    standing.is_here = false;
    standing.is_given_up = true;
    covered_.erase(worker);
    begin_epoch();
}

// Goes on without the members that were given up. Those of the server before this one stay while others of
// that server are expected: only the weights that those have seen show which updates are lost. Until then
// rounds wait, and workers and snapshots tell the next successor to expect all of them, as this server does.
void Root::let_go_of_given_up() {
    const bool must_wait = staleness_ && expects_anybody();
    for (auto member = members_.begin(); member != members_.end();) {
        const auto& [worker, standing] = *member;
        if (!standing.is_given_up || (standing.was_before && must_wait)) {
            ++member;
            continue;
        }
        const auto applied = applied_.find(worker);
        const Clock end = staleness_                  ? highest(clocks_)
                          : applied == applied_.end() ? 0
                                                      : highest(applied->second);
        departed_.insert_or_assign(worker, Departed{worker, standing.first, end});
        applied_.erase(worker);
        member = members_.erase(member);
    }
}

bool Root::is_given_up(Worker worker) const {
    const auto member = members_.find(worker);
    return member != members_.end() && member->second.is_given_up;
}

void Root::suspect(Worker worker) {
    const auto member = members_.find(worker);
    if (member == members_.end() || std::exchange(member->second.is_suspected, true)) return;
    if (tree_.contains(worker)) begin_epoch();
}

void Root::trust(Worker worker) {
    const auto member = members_.find(worker);
    if (member == members_.end() || !member->second.is_here) return;
    member->second.is_suspected = false;
    apart_.clear();
    // Also for a worker that was never suspected here: its connection may be a new one, on which it has
    // received nothing yet.
    begin_epoch();
}

// Builds the tree from all workers that are here, so that it keeps the configured shape after a death.
Tree Root::new_tree() const {
    std::map<Worker, int> groups;
    for (const auto& [worker, standing] : members_)
        if (standing.is_here && !standing.is_suspected) groups.emplace(worker, standing.group);
    Tree tree(shape_, groups);
    for (const auto& [worker, standing] : members_)
        if (standing.is_here && standing.is_suspected) tree.add_leaf(worker);
    for (const auto& [worker, standing] : members_)
        while (tree.contains(worker) && apart_.contains({worker, tree.parent(worker)})) tree.lift(worker);
    return tree;
}

// If the first worker to join, or the first after all others have left, begins with a later round, skips the
// rounds before. Does nothing while no worker is here: until then the clocks say where this server continues
// from, and whether other servers continue from the same round (an expected worker may begin later than that
// and never come).
void Root::skip_rounds_without_workers() {
    const auto is_here = [](const auto& member) { return member.second.is_here; };
    if (!staleness_ || std::none_of(members_.begin(), members_.end(), is_here)) return;
    const auto earliest =
        std::min_element(members_.begin(), members_.end(),
                         [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    for (Chunk chunk = 0; chunk < clocks_.size(); ++chunk) {
        const Clock before = clocks_[chunk];
        clocks_[chunk] = std::max(before, earliest->second.first);
        cut(chunk, before, clocks_[chunk]);
    }
}

void Root::know_members() {
    if (staleness_) return;
    for (const auto& [worker, standing] : members_)
        applied_.try_emplace(worker, std::vector<Clock>(clocks_.size()));
}

void Root::begin_epoch() {
    let_go_of_given_up();
    name_what_is_lost();
    know_members();
    skip_rounds_without_workers();
    tree_ = new_tree();
    ++epoch_.number;
    Announcement announcement{epoch_, {}, clocks_};
    for (const auto& [worker, standing] : members_)
        if (standing.is_here)
            announcement.members.push_back({worker, tree_.parent(worker), standing.first});
        else if (standing.was_before)
            announcement.expected.push_back({worker, standing.first});
    for (const auto& [worker, departed] : departed_)
        if (kept_from_ && departed.first < departed.end && !is_saved(departed))
            announcement.departed.push_back(departed);
    for (const Member& member : announcement.members) {
        if (!staleness_) announcement.clocks = applied_.at(member.worker);
        send(member.worker, announcement);
    }
    // An earlier Covered message may have been sent on a connection that broke, or by the server before this
    // one.
    covered_.clear();
    tell_what_is_covered();
    for (Chunks& chunk : waiting_) chunk = {};
}

// ---- Messages from members -------------------------------------------------------------------------------

void Root::receive(Worker from, const Message& message) {
    if (const auto* const sum = std::get_if<Sum>(&message)) return take(from, *sum);
    if (const auto* const want = std::get_if<Want>(&message)) return take(from, *want);
    if (const auto* const lost = std::get_if<ParentLost>(&message))
        return take_lost_parent(from, lost->epoch);
    throw ProtocolError("it sent a note that only servers send");
}

// Returns true if `worker` is `child` or is below it.
bool Root::is_below(Worker worker, Worker child) const {
    while (tree_.contains(worker) && worker != child) worker = tree_.parent(worker);
    return worker == child;
}

void Root::take(Worker from, const Sum& sum) {
    if (sum.epoch != epoch_ || sum.chunk >= clocks_.size() || !is_child(from)) return;
    const auto is_elsewhere = [&](Worker worker) { return !is_below(worker, from); };
    if (std::any_of(sum.workers.begin(), sum.workers.end(), is_elsewhere))
        throw ProtocolError("it sent updates of workers that are not below it in the tree");
    if (!staleness_) return apply_at_once(sum);
    waiting_[sum.chunk].sums[sum.clock].emplace(from, sum);
    apply_what_is_complete(sum.chunk);
}

void Root::take(Worker from, const Want& want) {
    if (want.epoch != epoch_ || want.chunk >= clocks_.size() || !is_child(from)) return;
    waiting_[want.chunk].wants[from].insert(want.clock);
    answer(want.chunk);
}

void Root::take_lost_parent(Worker from, Epoch epoch) {
    if (epoch != epoch_ || !tree_.contains(from)) return;  // it has another parent already
    if (is_child(from)) throw ProtocolError("it reported a lost parent, but it has no parent");
    apart_.emplace(from, tree_.parent(from));
    begin_epoch();
}

// ---- Rounds ----------------------------------------------------------------------------------------------

// Returns all sums of the next round if no worker's update is missing.
std::optional<std::vector<Sum>> Root::complete(Chunk chunk) const {
    const Clock clock = clocks_[chunk];
    std::set<Worker> missing;
    for (const auto& [worker, standing] : members_)
        if (standing.first <= clock) missing.insert(worker);
    const auto round = waiting_[chunk].sums.find(clock);
    if (missing.empty() || round == waiting_[chunk].sums.end()) return std::nullopt;
    std::vector<Sum> sums;
    for (const auto& [from, sum] : round->second) {
        for (const Worker worker : sum.workers) missing.erase(worker);
        sums.push_back(sum);
    }
    if (!missing.empty()) return std::nullopt;
    return sums;
}

void Root::apply(Chunk chunk, const std::vector<Value>& parts, const std::vector<Worker>& workers) {
    weights_[chunk] = arithmetic_.updated(chunk, clocks_[chunk], weights_[chunk], parts, workers);
    ++clocks_[chunk];
    cut(chunk, clocks_[chunk] - 1, clocks_[chunk]);
}

// Adds the chunk's weights to the cuts of all clocks after `from`, up to `to`. If rounds without workers were
// skipped, there may be many such cuts, and the last two are enough.
void Root::cut(Chunk chunk, Clock from, Clock to) {
    if (every_ == 0 || !staleness_) return;
    const Clock last = to / every_ * every_;
    const Clock first =
        std::max({from / every_ * every_ + every_, last < every_ ? 0 : last - every_, last_cut_ + 1});
    for (Clock clock = (first + every_ - 1) / every_ * every_; clock <= last; clock += every_) {
        Cut& cut =
            cuts_.try_emplace(clock, Cut{std::vector<Value>(clocks_.size()), clocks_.size()}).first->second;
        if (!std::exchange(cut.weights[chunk], weights_[chunk]) && --cut.missing == 0) finish_cut(clock);
    }
}

void Root::finish_cut(Clock clock) {
    Snapshot whole{epoch_.incarnation,
                   std::move(cuts_.at(clock).weights),
                   std::vector<Clock>(clocks_.size(), clock),
                   {},
                   {},
                   {}};
    describe_members(whole, clock);
    finished_cuts_.push_back(std::move(whole));
    last_cut_ = clock;
    cuts_.erase(cuts_.begin(), cuts_.upper_bound(clock));
}

// Applies an update if it is the worker's next one. A worker pushes its rounds in order, without gaps. After
// a new epoch has begun it may push updates again that were applied.
void Root::apply_at_once(const Sum& sum) {
    const Worker worker = sum.workers.front();
    const auto found = applied_.find(worker);
    if (sum.workers.size() != 1 || found == applied_.end() || sum.clock != found->second[sum.chunk]) return;
    apply(sum.chunk, {sum.value}, sum.workers);
    ++found->second[sum.chunk];
    tell_what_is_covered(worker, lowest(found->second));
}

void Root::apply_what_is_complete(Chunk chunk) {
    bool has_moved = false;
    while (const auto sums = complete(chunk)) {
        std::vector<Value> parts;
        std::vector<Worker> workers;
        for (const Sum& sum : *sums) {
            parts.push_back(sum.value);
            workers.insert(workers.end(), sum.workers.begin(), sum.workers.end());
        }
        std::sort(workers.begin(), workers.end());
        waiting_[chunk].sums.erase(clocks_[chunk]);
        apply(chunk, parts, workers);
        has_moved = true;
    }
    if (!has_moved) return;
    answer(chunk);
    tell_what_is_covered();
}

void Root::answer(Chunk chunk) {
    const Clock clock = clocks_[chunk];
    for (auto& [child, wants] : waiting_[chunk].wants) {
        if (wants.empty() || *wants.begin() > clock) continue;
        wants.erase(wants.begin(), wants.upper_bound(clock));
        send(child, Weights{epoch_, chunk, clock, weights_[chunk]});
    }
}

// ---- Progress --------------------------------------------------------------------------------------------

bool Root::is_whole() const {
    return !staleness_ || lowest(clocks_) == highest(clocks_);
}

std::vector<Worker> Root::expected() const {
    std::vector<Worker> expected;
    for (const auto& [worker, standing] : members_)
        if (standing.was_before && !standing.is_here && !standing.is_given_up) expected.push_back(worker);
    return expected;
}

Clock Root::lowest_clock() const {
    return lowest(clocks_);
}

Clock Root::highest_clock() const {
    return highest(clocks_);
}

Snapshot Root::snapshot() const {
    Snapshot result{epoch_.incarnation, weights_, clocks_, {}, applied_, {}};
    describe_members(result, {});
    return result;
}

// cut: the snapshot has no rounds from this one on. A worker may be described as departed only if the
// snapshot has all of its updates.
void Root::describe_members(Snapshot& snapshot, std::optional<Clock> cut) const {
    for (const auto& [worker, departed] : departed_)
        if (!cut || departed.end <= *cut) snapshot.departed.emplace(worker, departed);
    for (const auto& [worker, standing] : members_) {
        if (!has_nothing_to_add(worker, standing) || (cut && *standing.leaves_after > *cut)) {
            snapshot.firsts.emplace(worker, standing.first);
            continue;
        }
        // Nothing should wait for this worker when the snapshot is restored. If it closed in the middle of a
        // round, some chunks may have its update of that round, and others may get it later.
        const Clock end = cut ? *standing.leaves_after : applied_by(worker);
        snapshot.departed.insert_or_assign(worker, Departed{worker, standing.first, end});
        snapshot.applied.erase(worker);
    }
}

void Root::leave_after(Worker worker, Clock clock) {
    if (const auto member = members_.find(worker); member != members_.end())
        member->second.leaves_after = clock;
}

bool Root::has_nothing_to_add(Worker worker, const Standing& standing) const {
    return standing.leaves_after && applied_by(worker) >= *standing.leaves_after;
}

bool Root::waits_for_snapshot(Worker worker) const {
    const auto member = members_.find(worker);
    if (member == members_.end() || !has_nothing_to_add(worker, member->second)) return false;
    const auto told = covered_.find(worker);
    return (told == covered_.end() ? 0 : told->second) < *member->second.leaves_after;
}

bool Root::has_unsaved_departures() const {
    return std::any_of(departed_.begin(), departed_.end(), [&](const auto& one) {
        const auto& [worker, departed] = one;
        const auto saved = kept_from_ ? kept_from_->find(worker) : Covers::const_iterator();
        const Clock from = kept_from_ && saved != kept_from_->end() ? saved->second : 0;
        return !is_saved(departed) && std::max(departed.first, from) < departed.end;
    });
}

bool Root::is_saved(const Departed& departed) const {
    const auto saved = saved_departed_.find(departed.worker);
    return saved != saved_departed_.end() && departed.end <= saved->second;
}

void Root::keep_what_lacks(const Snapshot& snapshot) {
    // Two snapshots may be written at once, and reach the disk in either order. A server restores the later
    // one.
    if (staleness_ && kept_from_ && lowest(snapshot.clocks) < kept_clock_) return;
    kept_clock_ = lowest(snapshot.clocks);
    kept_from_.emplace();
    for (const auto& [worker, departed] : snapshot.departed) {
        Clock& saved = saved_departed_[worker];
        saved = std::max(saved, departed.end);
        kept_from_->emplace(worker, departed.end);
    }
    for (const auto& [worker, first] : snapshot.firsts)
        kept_from_->emplace(worker, lowest(staleness_ ? snapshot.clocks : snapshot.applied.at(worker)));
    tell_what_is_covered();
}

void Root::tell_what_is_covered() {
    const Clock all = lowest(clocks_);
    for (const auto& [worker, standing] : members_)
        if (standing.is_here) tell_what_is_covered(worker, staleness_ ? all : lowest(applied_.at(worker)));
}

void Root::tell_what_is_covered(Worker worker, Clock applied) {
    if (kept_from_) {
        const auto found = kept_from_->find(worker);
        applied = std::min(applied, found == kept_from_->end() ? 0 : found->second);
    }
    Clock& told = covered_[worker];
    if (applied <= told) return;
    told = applied;
    send(worker, Covered{epoch_, applied});
}

}  // namespace hocket::params
