#include "runtime/params/server/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using transport::ProtocolError;

constexpr std::size_t most_workers = 1 << 16;
// How long a worker may need after an outage: workers dial once a second, and the first packets may be lost,
// too.
constexpr std::chrono::milliseconds time_to_reconnect = 3s;
constexpr Clock most_ahead = 1 << 20;  // the most rounds that another server may be ahead of this one

// A link's user is its worker's number plus 1; null: the worker has not said its number yet.
void* tag(Worker worker) {
    return reinterpret_cast<void*>(std::uintptr_t{worker} + 1);
}

}  // namespace

Shard::Shard(std::shared_ptr<const Job> job, std::shared_ptr<const Layout> layout, std::uint32_t index,
             std::shared_ptr<Memory> memory, std::shared_ptr<const Calculator> calculator, ShardTerms terms,
             std::uint64_t every, bool has_checkpoints, const std::string& rack)
    : job_(std::move(job)),
      layout_(std::move(layout)),
      index_(index),
      terms_(terms),
      every_(every),
      kept_rounds_(has_checkpoints ? every : 0),
      arithmetic_(layout_, index, std::move(memory), std::move(calculator)),
      server_groups_(layout_->servers(), -1) {
    server_groups_[index_] = group_of(rack);
}

void Shard::know_racks(const std::vector<std::string>& racks) {
    if (racks.size() < server_groups_.size())
        throw ProtocolError("it named racks for fewer servers than there are");
    for (std::size_t server = 0; server < server_groups_.size(); ++server)
        server_groups_[server] = racks[server].empty() ? -1 : group_of(racks[server]);
    if (root_) root_->know_server_groups(server_groups_);
}

ChunkShape Shard::shape_of(Chunk chunk) const {
    if (chunk >= layout_->chunks_of(index_)) throw ProtocolError("it named a chunk that does not exist");
    return arithmetic_.shape(chunk);
}

Bounds Shard::bounds() const {
    return {most_workers, layout_->chunks_of(index_)};
}

// ---- The beginning ---------------------------------------------------------------------------------------

void Shard::begin(const std::vector<Worker>& founders, const std::vector<Worker>& givers) {
    const std::size_t chunks = layout_->chunks_of(index_);
    first_.clocks.assign(chunks, 0);
    for (const Worker worker : founders) {
        first_.firsts.emplace(worker, 0);
        workers_[worker].gone_since = transport::Clock::now();
    }
    first_.weights.assign(chunks, nullptr);
    givers_.insert(givers.begin(), givers.end());
    missing_weights_ = givers.empty() ? 0 : chunks;
    if (givers.empty()) {
        for (Chunk chunk = 0; chunk < chunks; ++chunk)
            first_.weights[chunk] = arithmetic_.zero_weights(chunk);
        is_accepted_ = true;
        restore(std::exchange(first_, {}));
    }
}

void Shard::restore(Snapshot snapshot) {
    for (const auto& [worker, first] : snapshot.firsts)
        if (!workers_.contains(worker)) workers_[worker].gone_since = transport::Clock::now();
    root_.emplace(std::move(snapshot), shape(), arithmetic_, job_->staleness);
    if (kept_rounds_ > 0) root_->keep_what_lacks(root_->snapshot());
    root_->cut_every(kept_rounds_);
    for (auto& [worker, note] : std::exchange(early_, {}))
        if (const auto found = workers_.find(worker); found != workers_.end() && found->second.link)
            take(*found->second.link, note);
    deliver();
}

// All servers must take the weights of one worker: they know the same givers, and wait for the lowest until
// it is given up. If no giver is left, a worker that has come since may be one.
void Shard::ask_for_weights() {
    if (missing_weights_ == 0) return;
    const auto can_give = [](const auto& one) { return one.second.link && one.second.has_weights; };
    if (givers_.empty()) {
        const auto found = std::find_if(workers_.begin(), workers_.end(), can_give);
        if (found == workers_.end()) return;
        givers_.insert(found->first);
        if (layout_->servers() > 1)
            log_line(
                "hocket-params: server {}: all workers of the beginning with first weights are gone; takes "
                "those of worker {}, and other servers may take another's: start the job anew",
                index_, found->first);
    }
    const auto giver = workers_.find(*givers_.begin());
    if (giver == workers_.end() || !can_give(*giver) || asked_ == giver->second.link) return;
    asked_ = giver->second.link;
    giver->second.link->send(Json{{"say", "give_weights"}});
}

// Forgets what the worker has given, too: weights of two workers do not fit together.
void Shard::forget_giver(Worker worker) {
    const bool gives = missing_weights_ > 0 && givers_.contains(worker) && *givers_.begin() == worker;
    givers_.erase(worker);
    if (!gives) return;
    asked_ = nullptr;
    missing_weights_ = first_.weights.size();
    first_.weights.assign(missing_weights_, nullptr);
    if (layout_->servers() > 1)
        log_line(
            "hocket-params: server {}: takes the first weights of another worker than worker {}, which is "
            "gone; a server that had all of that one's before goes on with them",
            index_, worker);
}

void Shard::take_first_weights(const Weights& weights) {
    Value& place = first_.weights[weights.chunk];
    if (place) return;
    place = arithmetic_.with_states(weights.chunk, weights.value);
    if (--missing_weights_ > 0) return;
    is_accepted_ = true;
    restore(std::exchange(first_, {}));
}

// ---- Notes -----------------------------------------------------------------------------------------------

Worker Shard::worker_of(const Link& link) const {
    if (link.user == nullptr) throw ProtocolError("it did not say which worker it is");
    return static_cast<Worker>(reinterpret_cast<std::uintptr_t>(link.user) - 1);
}

void Shard::take(Link& link, const Json& note) {
    const auto say = note.at("say").get<std::string>();
    const bool names_a_server = say == "reserve" || say == "resume";
    if (names_a_server && said_number(note.at("server"), UINT32_MAX) != index_)
        throw ProtocolError(fmt::format("it means another server than this one, which is server {}", index_));
    if (say == "reserve") return reserve(link, note);
    if (say == "resume") return resume(link, note);
    if (say == "join") return join(link, note);
    if (say == "goodbye" && link.user == nullptr) return link.close_when_sent();  // it was refused
    if (say == "flush") return flush(link, note);
    const Worker worker = worker_of(link);
    if (say == "goodbye") {
        link.user = nullptr;
        workers_.at(worker).link = nullptr;
        link.close_when_sent();
        return remove(worker);
    }
    throw ProtocolError("it sent a note that workers do not send: " + transport::printable(say));
}

// The worker leaves as soon as its updates are where no failure of this server can lose them.
void Shard::flush(Link& link, const Json& note) {
    const Clock clock = said_clock(note.at("clock"));
    const Worker worker = worker_of(link);
    if (root_) root_->leave_after(worker, clock);
}

bool Shard::wants_checkpoint() const {
    if (!has_begun()) return false;
    return root_->has_unsaved_departures() ||
           std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& one) { return root_->waits_for_snapshot(one.first); });
}

void Shard::tell_who_waits_for_checkpoint() {
    for (const auto& [worker, standing] : workers_)
        if (standing.link && root_->waits_for_snapshot(worker))
            standing.link->send(Json{{"say", "flushing"}});
}

// Reads the whole note before changing anything: if it is malformed, the connection is dropped, and the
// worker must not be registered with it.
void Shard::arrive(Worker worker, Link& link, const Json& note) {
    const std::string at = said_place(note.at("at")), rack = said_name(note.at("rack"));
    if (link.user != nullptr && worker_of(link) != worker)
        throw ProtocolError("it introduced itself as two workers");
    Standing& standing = workers_[worker];
    if (standing.link && standing.link != &link) {
        // The worker reconnected before the end of its old connection was noticed.
        standing.link->user = nullptr;
        standing.link->close_when_sent();
    }
    standing.link = &link;
    standing.gone_since.reset();
    if (!root_) standing.is_suspected = false;
    standing.at = at;
    standing.rack = rack;
    link.user = tag(worker);
    had_workers_ = true;
    link.send(Json{{"say", "terms"}, {"silence_ms", terms_.silence.count()}});
}

void Shard::reserve(Link& link, const Json& note) {
    const Worker worker = said_worker(note.at("number"));
    const bool has_weights = note.at("has_weights").get<bool>();
    arrive(worker, link, note);
    workers_[worker].has_weights = has_weights;
    if (!has_weights) forget_giver(worker);
    ask_for_weights();
    if (!root_) {
        early_[worker] = note;
        return;
    }
    if (!is_accepted() && root_->expects_anybody()) {
        postponed_[worker] = note;
        return tell_postponed(link);
    }
    const auto known = root_->first_of(worker);
    const Clock first = known ? *known : root_->reserve(worker);
    link.send(Json{{"say", "reserved"},
                   {"first", first},
                   {"kept_rounds", kept_rounds_},
                   {"is_accepted", is_accepted()},
                   {"round", root_->is_whole() ? Json(root_->lowest_clock()) : Json()},
                   {"whole_rounds", whole_rounds_}});
}

// Tells a new worker whom it has to wait for.
void Shard::tell_postponed(Link& link) {
    told_expected_ = root_->expected();
    link.send(Json{{"say", "postponed"}, {"expected", told_expected_}});
}

// Called when it becomes known whether any former member comes back.
void Shard::take_postponed() {
    if (!root_ || postponed_.empty()) return;
    if (!is_accepted() && root_->expects_anybody()) {
        if (told_expected_ == root_->expected()) return;
        for (const auto& [worker, note] : postponed_)
            if (const auto found = workers_.find(worker); found != workers_.end() && found->second.link)
                tell_postponed(*found->second.link);
        return;
    }
    for (const auto& [worker, note] : std::exchange(postponed_, {}))
        if (const auto found = workers_.find(worker); found != workers_.end() && found->second.link)
            reserve(*found->second.link, note);
}

void Shard::join(Link& link, const Json& note) {
    const Worker worker = worker_of(link);
    const Clock first = said_clock(note.at("first"));
    const auto reserved = root_ ? root_->first_of(worker) : std::nullopt;
    if (reserved && (first < *reserved || first - *reserved > most_ahead))
        throw ProtocolError("it began with a round that was not reserved for it");
    is_accepted_ |= root_.has_value();  // otherwise the worker would not have joined
    if (!root_ || !root_->join(worker, group_of(workers_.at(worker).rack), first))
        link.send(Json{{"say", "refused"},
                       {"why",
                        "rounds were applied without this worker, because a server was replaced while it "
                        "came; it can come again"}});
    deliver();
}

namespace {

Recollection said_recollection(const Json& note) {
    Recollection result;
    const Json &members = note.at("members"), &departed = note.at("departed");
    if (members.size() > most_workers || departed.size() > most_workers)
        throw ProtocolError("it named more workers than there may be");
    for (const Json& member : members)
        result.members.push_back({said_worker(member.at(0)), said_clock(member.at(1))});
    for (const Json& one : departed)
        result.departed.push_back({said_worker(one.at(0)), said_clock(one.at(1)), said_clock(one.at(2))});
    result.seen = said_clock(note.at("seen"));
    result.pushed = said_clock(note.at("pushed"));
    return result;
}

std::string text_of(const Lost& lost) {
    const std::string rounds = !lost.end ? fmt::format("from round {} on", lost.first)
                               : *lost.end - lost.first == 1
                                   ? fmt::format("of round {}", lost.first)
                                   : fmt::format("of rounds {} to {}", lost.first, *lost.end - 1);
    return fmt::format(
        "updates of worker {} {}, which others may have pulled, are lost: no checkpoint has them, and it "
        "does not come back",
        lost.worker, rounds);
}

}  // namespace

// Takes back a worker whose connection broke, or whose server was replaced by this one.
void Shard::resume(Link& link, const Json& note) {
    const Worker worker = said_worker(note.at("number"));
    const Clock covered = said_clock(note.at("covered"));
    const auto incarnation = said_number(note.at("incarnation"), UINT32_MAX);
    const Recollection recollection = said_recollection(note);
    said_place(note.at("at"));  // what is no place ends the connection, also if the worker is refused
    said_name(note.at("rack"));
    if (link.user != nullptr && worker_of(link) != worker)
        throw ProtocolError("it introduced itself as two workers");
    // Notes that the worker sent after this one are ignored: it could not know that it is refused.
    const auto refuse = [&](const std::string& why) {
        link.send(Json{{"say", "refused"}, {"why", why}});
        link.close_when_sent();
    };
    if (!root_) return refuse(begun_anew);
    // The worker would take nothing from this server: epochs of later incarnations order after all of this
    // one.
    if (incarnation > root_->epoch().incarnation)
        return refuse(
            "it has been with a later server than this one, which goes on from another checkpoint than the "
            "last one");
    // Without rounds the clock counts the updates of all workers, and `covered` this worker's.
    const Clock has = job_->staleness ? clock() : root_->applied_by(worker);
    if (has < covered)
        return refuse(
            fmt::format("this server goes on from round {}, but workers have kept no updates below round {}: "
                        "it has another checkpoint than the last one, or servers wrote none",
                        has, covered));
    const bool is_same = incarnation == root_->epoch().incarnation;
    if (is_same && !root_->has(worker))
        return refuse(fmt::format(
            "it did not answer for so long that the others went on without it (after {} ms, or {} "
            "ms where its connection had ended)",
            terms_.return_for.count(), terms_.death.count()));
    if (!is_same && !is_possible(recollection))
        return refuse("it names a round that no worker can have reached yet");
    arrive(worker, link, note);
    workers_[worker].is_suspected = false;
    const int group = group_of(workers_[worker].rack);
    if (is_same)
        root_->trust(worker);
    else if (!root_->resume(worker, group, recollection)) {
        workers_.erase(worker);
        link.user = nullptr;
        deliver();
        return refuse(
            "the server was replaced, and goes on without this worker, which came back too late: its "
            "updates might count twice");
    }
    has_resumed_ |= !is_same;
    for (const Expected& member : recollection.members) {
        if (!root_->has(member.worker)) continue;
        const auto [known, is_new] = workers_.try_emplace(member.worker);
        if (is_new) known->second.gone_since = transport::Clock::now();
        known->second.is_named = true;
    }
    deliver();
}

// Chunks are forwarded only once complete, so each level adds one chunk's time, up and down; and so does each
// child. The formula assumes that all servers have about as many chunks as this one, so that they choose the
// same shape.
Shape Shard::shape() const {
    Shape shape = !job_->staleness ? Shape{} : Shape::parse(job_->tree);
    shape.step_cost = 2.0 * layout_->servers() / static_cast<double>(layout_->chunks());
    shape.server_groups = server_groups_;
    shape.server = index_;
    return shape;
}

int Shard::group_of(const std::string& rack) {
    return groups_.emplace(rack, static_cast<int>(groups_.size())).first->second;
}

// ---- Messages --------------------------------------------------------------------------------------------

void Shard::take(Link& link, const Message& message) {
    const Worker worker = worker_of(link);
    if (const auto* const weights = std::get_if<Weights>(&message)) {
        if (root_) return;  // another worker has given them meanwhile
        if (asked_ != &link) throw ProtocolError("it sent weights that nobody asked for");
        return take_first_weights(*weights);
    }
    if (!root_) throw ProtocolError("it pushed or pulled before the job had begun");
    require_possible(message);
    if (const auto* const sum = std::get_if<Sum>(&message))
        for (const Worker from : sum->workers)
            if (const auto found = workers_.find(from); found != workers_.end())
                found->second.pushed = std::max(found->second.pushed, sum->clock + 1);
    root_->receive(worker, message);
    deliver();
}

// Bounds the sums of later rounds that wait here and take memory. A worker pushes no round further than that
// from one that is covered; it begins no further from another server's rounds, and those are no further from
// this server's. A worker that joins restored servers begins where the furthest of them is.
void Shard::require_possible(const Message& message) const {
    const auto require = [&](const Epoch& epoch, Chunk chunk, Clock clock) {
        if (!job_->staleness || epoch != root_->epoch()) return;
        const Clock ahead = most_rounds_ahead();
        if (clock > root_->clock(chunk) + ahead && clock > latest_first() + ahead)
            throw ProtocolError("it pushed or pulled for a round that it cannot have reached yet");
    };
    if (const auto* const sum = std::get_if<Sum>(&message)) require(sum->epoch, sum->chunk, sum->clock);
    if (const auto* const want = std::get_if<Want>(&message))
        require(want->epoch, want->chunk, want->clock > 0 ? want->clock - 1 : 0);
}

Clock Shard::most_rounds_ahead() const {
    return 2 * most_kept(*job_->staleness, every_) + *job_->staleness + 1;
}

// Bounds the rounds that a former member of the server before this one names, of which this server's
// checkpoint does not know yet: a new worker begins after all of them. Where that server could write no
// checkpoint while workers joined and left, they got further ahead than by their updates alone, and by as
// much as another server may be ahead.
bool Shard::is_possible(const Recollection& recollection) const {
    if (!job_->staleness) return true;
    Clock latest = std::max(recollection.seen, recollection.pushed);
    for (const Expected& member : recollection.members) latest = std::max(latest, member.first);
    for (const Departed& departed : recollection.departed)
        latest = std::max({latest, departed.first, departed.end});
    constexpr Clock times_joined = 4;
    return latest <=
           std::max(root_->highest_clock(), latest_first()) + most_ahead + times_joined * most_rounds_ahead();
}

Clock Shard::latest_first() const {
    Clock latest = 0;
    for (const auto& [worker, standing] : workers_)
        latest = std::max(latest, root_->first_of(worker).value_or(0));
    return latest;
}

void Shard::deliver() {
    if (!root_) return;
    for (const Lost& lost : root_->lost()) {
        lost_.push_back(text_of(lost));
        log_line("hocket-params: server {}: {}", index_, lost_.back());
        tell_all(Json{{"say", "lost"}, {"what", lost_.back()}});
    }
    for (const Letter& letter : root_->letters()) {
        const auto found = workers_.find(letter.to);
        // Everything is sent again when the worker is back.
        if (found == workers_.end() || !found->second.link) continue;
        if (std::holds_alternative<Announcement>(letter.message))
            found->second.link->send(Json{{"say", "places"}, {"at", places()}});
        found->second.link->send(letter.message);
    }
}

Json Shard::places() const {
    Json places = Json::array();
    for (const auto& [worker, standing] : workers_) places.push_back({worker, standing.at});
    return places;
}

void Shard::tell(Worker worker, const Json& note) {
    if (const auto found = workers_.find(worker); found != workers_.end() && found->second.link)
        found->second.link->send(note);
}

void Shard::tell_all(const Json& note) {
    for (const auto& [worker, standing] : workers_)
        if (standing.link) standing.link->send(note);
}

void Shard::keep_what_lacks(const Snapshot& snapshot) {
    root_->keep_what_lacks(snapshot);
    deliver();
}

// ---- Liveness of workers ---------------------------------------------------------------------------------

void Shard::be_found() {
    if (!std::exchange(is_hidden_, false)) return;
    for (auto& [worker, standing] : workers_)
        if (!standing.link) standing.gone_since = transport::Clock::now();
}

void Shard::lost(Link& link, const std::string& why) {
    const auto found = std::find_if(workers_.begin(), workers_.end(),
                                    [&](const auto& one) { return one.second.link == &link; });
    if (found == workers_.end()) return;
    auto& [worker, standing] = *found;
    standing.link = nullptr;
    standing.gone_since = transport::Clock::now();
    log_line("hocket-params: server {}: the connection with worker {} ({}) broke: {}", index_, worker,
             standing.at, why);
    if (asked_ == &link) asked_ = nullptr;  // it is asked again when it is back
    standing.is_suspected = true;
    if (!root_) return;
    root_->suspect(worker);
    deliver();
}

void Shard::remove(Worker worker) {
    workers_.erase(worker);
    first_.firsts.erase(worker);
    postponed_.erase(worker);
    forget_giver(worker);
    ask_for_weights();
    if (root_) root_->remove(worker);
    deliver();
}

void Shard::tick(transport::Clock::time_point now) {
    std::vector<Worker> numbers;
    for (const auto& [worker, standing] : workers_) numbers.push_back(worker);
    for (const Worker worker : numbers)
        if (const auto found = workers_.find(worker); found != workers_.end())
            tick(worker, found->second, now);
    take_postponed();
}

void Shard::tick(Worker worker, Standing& standing, transport::Clock::time_point now) {
    const auto take_out = [&](const std::string& why) {
        const std::string at = standing.at.empty() ? "" : fmt::format(" ({})", standing.at);
        log_line("hocket-params: server {}: goes on without worker {}{}: {}", index_, worker, at, why);
        if (standing.link) {
            standing.link->user = nullptr;
            standing.link->close_when_sent();
        }
        remove(worker);
    };
    if (!standing.link) {
        const bool has_died = standing.is_suspected;
        if (is_hidden_ && !has_died) return;
        // The checkpoint lists the worker, but the server that wrote it continued without the worker later.
        const bool was_taken_out = has_resumed_ && !standing.is_named;
        // A giver of first weights that has not come is awaited for as long as a silent worker, where another
        // one could give them at once.
        const bool is_awaited_giver =
            missing_weights_ > 0 && !givers_.empty() && *givers_.begin() == worker &&
            std::any_of(workers_.begin(), workers_.end(),
                        [](const auto& one) { return one.second.link && one.second.has_weights; });
        const auto patience = has_died ? terms_.death
                              : was_taken_out || is_awaited_giver
                                  ? std::min(terms_.silence, terms_.return_for)
                                  : terms_.return_for;
        if (standing.gone_since && now - *standing.gone_since > patience)
            take_out(has_died ? "its connection has ended"
                              : fmt::format("it did not come within {} ms", patience.count()));
        return;
    }
    Link& link = *standing.link;
    if (now - link.spoke() > terms_.silence / 4 && !link.has_unsent()) link.send_heartbeat();
    const auto silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(now - link.heard());
    const bool is_silent = silent_for > terms_.silence;
    standing.was_cut_off = is_silent && (standing.was_cut_off || link.is_cut_off());
    if (silent_for > terms_.return_for + (standing.was_cut_off ? time_to_reconnect : 0ms))
        return take_out(fmt::format("it has not answered for {} ms", silent_for.count()));
    if (!root_ || is_silent == standing.is_suspected) return;
    standing.is_suspected = is_silent;
    log_line("hocket-params: server {}: worker {} ({}) {}", index_, worker, standing.at,
             is_silent ? "does not answer" : "answers again");
    is_silent ? root_->suspect(worker) : root_->trust(worker);
    deliver();
}

std::string Shard::waits_for() const {
    if (has_begun()) return "";
    return !givers_.empty() ? fmt::format("worker {} has not sent all of the first weights", *givers_.begin())
                            : "no worker that has the first weights has come";
}

Json Shard::stats() const {
    std::uint64_t bytes = 0;
    const Chunk first = layout_->first_of(index_), end = first + layout_->chunks_of(index_);
    for (Chunk chunk = first; chunk < end; ++chunk) bytes += layout_->place(chunk).bytes();
    Json workers = Json::array();
    for (const auto& [worker, standing] : workers_)
        workers.push_back(
            {{"number", worker},
             {"at", standing.at},
             {"rack", standing.rack},
             {"parent", root_ && root_->tree().contains(worker) && root_->tree().parent(worker) != the_server
                            ? Json(root_->tree().parent(worker))
                            : Json("server")},
             {"pushed", standing.pushed},
             {"answers", standing.link != nullptr && !standing.is_suspected},
             {"received", standing.link ? standing.link->bytes_received() : 0},
             {"sent", standing.link ? standing.link->bytes_sent() : 0},
             {"shares_memory", standing.link && standing.link->lends()}});
    return {{"server", index_},
            {"clock", clock()},
            {"epochs", root_ ? root_->epoch().number : 0},
            {"chunks", end - first},
            {"bytes", bytes},
            {"model_chunks", layout_->chunks()},
            {"model_bytes", layout_->bytes()},
            {"update", job_->update},
            {"staleness", job_->staleness ? Json(*job_->staleness) : Json("unbounded")},
            {"tree", job_->tree},
            {"lost", lost_},
            {"workers", workers}};
}

}  // namespace hocket::params
