// Progress: detects operations that will never end, and makes a communicator fail.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/base/caught.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/progress/progress.hpp"

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto stranded_grace = 200ms;       // a rank that left may have sent the awaited data just before
constexpr auto loss_follows_within = 500ms;  // a broken connection is often the first sign of a lost rank
constexpr auto mismatch_lingers = 100ms;
constexpr auto difference_within = 1s;  // time for rank 0 to say which ranks differ
constexpr auto answer_interval = 2ms;
constexpr auto longest_movement = 1s;             // afterwards, the movement may be that of other operations
constexpr auto others_copies_end_within = 500ms;  // copies from or to its devices, after a failure

bool readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return fd >= 0 && ::poll(&entry, 1, 0) > 0;
}

// Returns true for the caller's mistakes and errors in a schedule, which are the same on all ranks.
bool is_same_on_all(Status status) {
    return status == Status::invalid_argument || status == Status::schedule || status == Status::not_found;
}

// Describes the latest operation of a rank that has not started the operation it was asked about.
std::string latest_of(const transport::Account& account) {
    if (account.checksums.empty()) return ", nor any other operation";
    return "; the latest that it had started was " +
           (account.operation.empty() ? fmt::format("operation #{}", account.number) : account.operation);
}

}  // namespace

// Starts in graphs are no operations in flight. One that has given up because another rank has is told by
// that rank.
void Progress::watch_graphs() {
    using Reason = jit::DeviceReport::Reason;
    const auto given_up = kernels_.given_up_in_graph();
    if (!given_up) return;
    const auto reason = static_cast<Reason>(given_up->report.reason);
    if (reason != Reason::deadline && reason != Reason::mismatch) return;
    const std::string what = fmt::format("{} by {} in a graph", given_up->collective, given_up->schedule);
    const std::string where = given_up->location.empty() ? "" : fmt::format(" at {}", given_up->location);
    if (reason == Reason::mismatch)
        return fail(could_not_go_on(
            Status::mismatch,
            fmt::format("{}: rank {} has started something else{}", what, given_up->peer, where),
            bootstrap_.rank(), in_flight()));
    fail(could_not_go_on(Status::timeout,
                         fmt::format("{} did not finish within {} ms: it waited for rank {}{}; launch such a "
                                     "graph on all ranks, in the same order among all starts",
                                     what, timeout_.count(), given_up->peer, where),
                         bootstrap_.rank(), in_flight()));
}

// Checks for everything that can keep an operation from ever ending.
void Progress::watch(Clock::time_point now) {
    if (failure_) return;
    if (auto news = bad_news()) return fail(std::move(*news));
    watch_graphs();
    if (failure_) return;
    watch_departures(now);
    if (!failure_) watch_deadlines(now);
    if (!failure_) watch_standstill(now);
}

// A lone rank may still wait for a message from another of its threads, so its deadlines count, too.
void Progress::watch_deadlines(Clock::time_point now) {
    for (const Execution* execution : in_flight_)
        if (deadline_clock_.at(now) >= execution->deadline() || execution->run().has_given_up())
            return fail(timed_out(timeout_, idle_ranks(), bootstrap_.rank(), in_flight()));
    for (const MessageRequest* message : messages_.open())
        if (deadline_clock_.at(now) >= message->deadline)
            return fail(timed_out(timeout_, *message, messages_.tags_not_received(message->start.peer),
                                  bootstrap_.rank(), in_flight()));
}

// Tells the other ranks in which operation this rank waits, so that they are asked what they have started
// instead. While anything moves, it most likely belongs to that operation, and nothing is told.
void Progress::watch_standstill(Clock::time_point now) {
    if (is_alone() || in_flight_.empty()) return;
    const bool moves = std::exchange(has_moved_, false) && now - stands_since_ < longest_movement;
    const std::uint64_t sequence = in_flight_.front()->sequence();
    if (std::exchange(awaited_sequence_, sequence) != sequence) stands_since_ = now;
    if (moves || stands_since_ == now) return impatience_.begin(now);
    if (impatience_.is_due(now)) bootstrap_.wait_in(in_flight_.front()->number());
}

// Returns this rank's account of an operation in which others wait. A rank that has failed has already
// reported the reason.
std::optional<transport::Account> Progress::account_of(std::uint64_t number) {
    std::optional<transport::Account> account;
    {
        const Gate::Visit visit(gate_);
        if (!failure_) account = account_now(number);
        if (!account) return account;
        const bool has_started = started_ > number;
        const auto same = std::ranges::find(in_flight_, number, &Execution::number);
        if (same != in_flight_.end() && (*same)->is_on_stream()) return account;  // it moves without calls
        // A rank that waits in an earlier operation is itself kept waiting.
        const bool is_open = has_started ? same != in_flight_.end() : !in_flight_.empty();
        if (is_open ? is_attended() : has_started) return account;
    }
    account->idleness = idleness_in(*account);
    return account;
}

// For an operation that has not been started here, or on which no thread here makes progress.
transport::Idleness Progress::idleness_in(const transport::Account& account) const {
    using Kind = transport::Idleness::Kind;
    const std::vector<std::string> others = sibling_.others_wait_in();
    const std::string elsewhere =
        others.empty() ? "" : fmt::format("; it waits in {}", fmt::join(others, ", and in "));
    if (account.number == account.asked && !account.checksums.empty())
        return {
            Kind::not_attended, !others.empty(),
            "has started it, and no thread of it is in a call of this communicator, whose operations move "
            "during its calls only (HOCKET_PROGRESS=calls)" +
                elsewhere};
    return {Kind::not_started, !others.empty(),
            "had not started it when it was asked" + latest_of(account) + elsewhere};
}

// A driver sleeps with the gate open; a driver that spins, or has no core, is polled again.
std::optional<std::string> Progress::awaited() {
    std::optional<std::string> operation;
    const auto look = [&] {
        if (gate_.driven() && !in_flight_.empty()) operation = describe(*in_flight_.front());
    };
    for (int attempt = 0; attempt < 20 && !gate_.try_look(look); ++attempt) std::this_thread::sleep_for(1ms);
    return operation;
}

std::map<int, transport::Idleness> Progress::idle_ranks() const {
    if (in_flight_.empty()) return {};
    auto idle = bootstrap_.idle_in(in_flight_.front()->number());
    idle.erase(bootstrap_.rank());  // this rank has started it since
    return idle;
}

std::optional<transport::Account> Progress::account_now(std::uint64_t number) const {
    transport::Account account;
    account.asked = number;
    if (started_ == 0) return account;
    account.number = number = std::min(number, started_ - 1);
    const auto same = std::ranges::find(in_flight_, number, &Execution::number);
    const Execution* open = same == in_flight_.end() ? nullptr : *same;
    const std::uint64_t known_from = record::Flight::first_checksum(started_);
    if (number >= known_from) {
        const std::uint64_t all = number - known_from + 1;
        for (std::uint64_t left = std::min<std::uint64_t>(all, transport::most_checksums); left-- > 0;)
            account.checksums.push_back(flight_.checksum(number - left));
    } else if (open) {
        account.checksums = {open->checksum()};
    } else {
        return std::nullopt;  // this rank is too far ahead
    }
    if (const record::CollectiveNote* note = flight_.find(number)) {
        account.operation = record::describe(*note->label, number, note->count);
        account.details = record::source_text(*note->label);
    }
    if (open) {
        account.operation = describe(*open);
        account.details = details_of(*open);
    }
    return account;
}

void Progress::watch_departures(Clock::time_point now) {
    if (!somebody_left_) somebody_left_ = readable(bootstrap_.event_fd());
    if (!somebody_left_) return;
    const auto peer = departed_peer();
    if (!peer) return;
    if (!stranded_since_) stranded_since_ = now;
    if (now - *stranded_since_ >= stranded_grace) fail_departure(*peer);
}

// Returns a peer that has left and for which the message waits. For a receive from any rank, only once no
// rank is left that could send.
std::optional<int> Progress::departed_peer_of(const MessageStart& message) const {
    if (message.peer != any_rank)
        return bootstrap_.has_left(message.peer) ? std::optional(message.peer) : std::nullopt;
    std::optional<int> gone;
    for (int rank = 0; rank < bootstrap_.world_size(); ++rank) {
        if (rank == bootstrap_.rank()) continue;
        if (!bootstrap_.has_left(rank)) return std::nullopt;
        gone = rank;
    }
    return gone;
}

std::optional<int> Progress::departed_peer() const {
    for (const MessageRequest* message : messages_.open())
        if (const auto gone = departed_peer_of(message->start)) return gone;
    for (const Execution* execution : in_flight_) {
        const auto awaited = execution->run().awaited_at_start();
        if (awaited && bootstrap_.has_left(*awaited)) return awaited;
        const auto& ops = execution->plan().program().ops;
        for (dsl::OpId id = 0; id < ops.size(); ++id) {
            const bool waits =
                ops[id].kind == dsl::Op::Kind::await || execution->run().binding().travels(ops[id]);
            if (ops[id].peer >= 0 && !execution->run().is_complete(id) && waits &&
                bootstrap_.has_left(ops[id].peer))
                return ops[id].peer;
        }
    }
    return std::nullopt;
}

// Fails the communicator because this rank could not do something, most likely for lack of memory.
void Progress::fail_here(const std::exception& caught) {
    const Error error = error_of(caught);
    if (failure_ || is_alone() || is_same_on_all(error.status())) return;
    fail(could_not_go_on(error.status(), error.what(), bootstrap_.rank(), in_flight()));
}

// Handles an error in making progress. A rank that waits for its own device cannot go on even if it is alone.
void Progress::fail_moving(const Error& error) {
    if (error.status() != Status::device && error.status() != Status::out_of_memory)
        return fail_fabric(error.what(), -1);
    fail(could_not_go_on(error.status(), error.what(), bootstrap_.rank(), in_flight()));
}

void Progress::cannot_start(const std::exception& error) {
    Gate::Visit visit(gate_);
    fail_here(error);
}

void Progress::abort(const std::string& reason) {
    Gate::Visit visit(gate_);
    if (!failure_) fail(aborted(reason, bootstrap_.rank(), in_flight()));
}

// A connection often breaks because the rank at its other end has failed, and rank 0 reports the reason.
// While rank 0 itself is silent (it may be stopped), this rank cannot know the reason and goes on waiting for
// rank 0. So an operation that times out does so on all ranks, whichever of them closed its connections
// first.
void Progress::fail_fabric(const std::string& reason, int peer) {
    if (failure_) return;
    const auto since = Clock::now();
    for (auto now = since; now - since < loss_follows_within || !bootstrap_.has_heard_host_since(since);
         now = Clock::now()) {
        if (auto news = bad_news()) return fail(std::move(*news));
        if (peer >= 0 && bootstrap_.has_left(peer)) return fail_departure(peer);
        watch_deadlines(now);
        if (failure_) return;
        std::this_thread::sleep_for(5ms);
    }
    const std::string whole = peer < 0 ? reason : fmt::format("{} (rank {})", reason, peer);
    fail(fabric_failed(whole, fabric_ ? fabric_->provider() : "memory", bootstrap_.rank(), in_flight()));
}

// A rank's report comes before its goodbye. Both may have come since the last call of bad_news().
void Progress::fail_departure(int peer) {
    auto news = bad_news();
    fail(news ? std::move(*news) : rank_has_left(peer, bootstrap_.rank(), in_flight()));
}

// A report takes precedence over a loss because it is the cause: the rank that reported may have been lost,
// or may have left, since.
std::optional<Failure> Progress::bad_news() const {
    if (!bootstrap_.has_bad_news()) return std::nullopt;
    if (const auto difference = bootstrap_.difference())
        return ranks_differ(*difference, bootstrap_.rank(), in_flight());
    const auto report = bootstrap_.reported();
    if (report && report->rank != bootstrap_.rank())
        return rank_reported(report->rank, decode_notice(report->text), bootstrap_.rank(), in_flight());
    if (const auto loss = bootstrap_.loss())
        return rank_was_lost(loss->rank, loss->reason, bootstrap_.rank(), in_flight());
    return std::nullopt;
}

// Fails a newly begun operation if another rank failed or was lost while this rank was in no call. Without
// this check the operation could still succeed here, with data sent before the failure. Reported mismatches
// are skipped: the mismatched operation detects them itself, and can name both sides' operations.
void Progress::hear_bad_news() {
    if (!failure_) watch_graphs();
    if (failure_ || !bootstrap_.has_bad_news()) return;
    auto news = bad_news();
    if (news && news->status != Status::mismatch) fail(std::move(*news));
}

// Losses are not reported: all ranks learn of them in the same way.
void Progress::tell_others(const Failure& failure) {
    if (failure.status == Status::peer_lost || (failure.status == Status::timeout && is_leaving_)) return;
    bootstrap_.report(encode(failure.notice));
}

// Returns the start whose tile had this sequence number; an earlier one, if that start has ended.
std::int64_t Progress::start_of(std::int64_t sequence) const {
    const Execution* latest = in_flight_.front();
    for (const Execution* execution : in_flight_)
        if (static_cast<std::int64_t>(execution->sequence()) <= sequence) latest = execution;
    const auto begin = static_cast<std::int64_t>(latest->start().sequence);
    return static_cast<std::int64_t>(latest->number()) - std::max<std::int64_t>(begin - sequence, 0);
}

// Waits until has_come() returns true or the time has come; returns false in the latter case. Meanwhile it
// polls the fabric for messages that are already under way.
template <typename HasCome>
bool Progress::linger(Clock::time_point until, HasCome has_come) {
    try {
        while (!has_come())
            if (Clock::now() >= until)
                return false;
            else if (!fabric_)
                std::this_thread::sleep_for(1ms);
            else if (fabric_->poll(completions_) == 0)
                fabric_->wait({}, 1ms);
        return true;
    } catch (const Error&) {  // the mismatch came first and is reported
        return false;
    }
}

// Asks all ranks what they have started, wherever they are. If rank 0 does not say in time which ranks
// differ, this rank reports what it knows to the others, and gives the peer a moment to report what it has
// started.
void Progress::fail_mismatch(const Execution& execution, Disagreement disagreement) {
    if (disagreement.counts) return fail(counts_differ(execution, disagreement, bootstrap_.rank()));
    transport::Impatience impatience(Clock::time_point{});
    Clock::time_point answered{};
    linger(Clock::now() + difference_within, [&] {
        const auto now = Clock::now();
        if (impatience.is_due(now)) bootstrap_.wait_in(execution.number());
        if (now - answered >= answer_interval) {
            answered = now;  // no other thread can answer while this one has the gate
            answers_.answer_here([this](std::uint64_t number) { return account_now(number); });
        }
        return bootstrap_.has_bad_news() || bootstrap_.has_left(0);
    });
    if (const auto difference = bootstrap_.difference())
        return fail(ranks_differ(*difference, bootstrap_.rank(), in_flight()));
    const dsl::Rank peer = disagreement.peer;
    std::int64_t agreed = agreed_[static_cast<std::size_t>(peer)];
    if (local_peers_) agreed = std::max(agreed, start_of(local_peers_->agreed_until(peer)));
    tell_others(ranks_disagree(execution, disagreement, agreed, bootstrap_.rank()));
    std::optional<transport::Report> theirs;
    linger(Clock::now() + mismatch_lingers,
           [&] { return (theirs = bootstrap_.reported_by(peer)).has_value(); });
    const auto notice = theirs ? std::optional(decode_notice(theirs->text)) : std::nullopt;
    fail(ranks_disagree(execution, disagreement, agreed, bootstrap_.rank(), notice));
}

void Progress::fail(Failure failure) {
    if (failure_) return;
    failure_ = std::move(failure);
    tell_others(*failure_);
    // A failure while this rank leaves concerns only the other ranks.
    std::optional<record::Recording> recording;
    if (on_failure_ && !is_leaving_) recording = recording_now();
    // This precedes the end of the executions, after which the caller may touch the buffers again.
    let_go();
    if (fabric_) fabric_->abandon();
    if (local_peers_) local_peers_->window().quarantine();
    const record::Moment now = record::coarse_now();
    for (Execution* execution : in_flight_) {
        execution->end(failure_->status);
        flight_.end(execution->number(), failure_->status, now);
    }
    in_flight_.clear();
    if (tracer_) tracer_->end_all(failure_->status);
    for (const MessageRequest* message : messages_.open())
        flight_.end_message(message->note, failure_->status, now);
    messages_.end_all(failure_->status);
    announce();
    if (recording) on_failure_(std::move(*recording));
}

// Ends all copies by devices; afterwards no other rank copies from or to this rank's memory outside the
// window.
void Progress::let_go() {
    bool others_may_copy = messages_.let_go();
    kernels_.give_up();
    const auto until = Clock::now() + device::copies_end_within;  // of all kernels
    for (Execution* execution : in_flight_) others_may_copy |= execution->let_go(until);
    if (others_may_copy) local_peers_->withdraw(Clock::now() + others_copies_end_within);
}

}  // namespace hocket::engine
