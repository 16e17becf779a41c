// Drives a communicator's operations: polls the fabric, runs operations that are ready, waits, and detects
// operations that will never end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/devices.hpp"
#include "runtime/engine/messages/point_to_point.hpp"
#include "runtime/engine/progress/answers.hpp"
#include "runtime/engine/progress/deadline_clock.hpp"
#include "runtime/engine/progress/endings.hpp"
#include "runtime/engine/progress/gate.hpp"
#include "runtime/engine/progress/left_alone.hpp"
#include "runtime/engine/progress/siblings.hpp"
#include "runtime/engine/progress/yields.hpp"
#include "runtime/engine/record/flight.hpp"
#include "runtime/engine/record/recording.hpp"
#include "runtime/engine/reports/failure.hpp"
#include "runtime/engine/reports/tracer.hpp"
#include "runtime/engine/run/execution.hpp"
#include "runtime/engine/run/shared_kernels.hpp"
#include "runtime/engine/start/buffer_uses.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// All functions are thread-safe. The first failure is final: from then on all functions throw it.
class Progress {
  public:
    using Clock = Execution::Clock;

    // local_peers: the ranks of this host that share memory with this one; null if there are none. fabric:
    // connects this rank to the others; null if there are none.
    Progress(transport::Bootstrap& bootstrap, LocalPeers* local_peers, transport::Fabric* fabric,
             std::chrono::milliseconds timeout);
    ~Progress();

    // Returns an execution, which the caller must pass to wait() or test(). factor: as in Start. limit:
    // replaces the communicator's timeout for a rank that is about to leave; when it passes, other ranks are
    // not told. buffers: null if all are on the host. Throws hocket::Error.
    Execution& start(const std::shared_ptr<StartablePlan>& plan, const Extent& extent, const void* send,
                     void* recv, double factor = 1,
                     std::optional<std::chrono::milliseconds> limit = std::nullopt,
                     const device::Buffers* buffers = nullptr);

    // Does start() and wait() in one call. But a start that runs as kernels of devices returns once it is on
    // the caller's stream; a failure is told by later calls.
    void run(const std::shared_ptr<StartablePlan>& plan, const Extent& extent, const void* send, void* recv,
             double factor = 1, const device::Buffers* buffers = nullptr);

    // Returns true if the execution has ended; it no longer belongs to the caller then. Throws its failure
    // (it no longer belongs to the caller then, either).
    bool test(Execution& execution);
    // Like test, but waits until the execution has ended or the time has come.
    bool wait(Execution& execution, Clock::time_point until = Clock::time_point::max());

    // The same four functions for a message to or from one other rank.
    MessageRequest& start(const MessageStart& message, const device::Buffers* buffers = nullptr);
    void run(const MessageStart& message, const device::Buffers* buffers = nullptr);
    bool test(MessageRequest& request);
    bool wait(MessageRequest& request, Clock::time_point until = Clock::time_point::max());

    // Waits until one of the collectives and messages has ended, or the time has come; they still belong to
    // the caller. Returns the place of the first that has ended.
    std::optional<std::size_t> wait_any(std::span<Request* const> requests, Clock::time_point until);

    // Notifies the program once the collective or message has ended; at once if it already has.
    void tell_end(const Request& request, Endings::Way way);
    // Returns the thread that makes the calls. Needs no gate.
    Caller& caller() { return endings_.caller(); }

    // Waits until no collective is in flight. For a thread that is about to wait for something that makes no
    // progress on them.
    void finish_collectives();

    // Waits until all starts have ended that run() has left on streams; before a rank leaves.
    void finish_on_stream();

    // Makes progress until nothing is in flight, or the time has come. Returns true if nothing is in flight.
    bool move_until(Clock::time_point until);

    // For a thread that makes progress when no other thread does: returns once nothing is in flight, or
    // another thread waits and makes the progress itself, or is_ending holds and call_driver() was called.
    // Never throws.
    void drive_what_is_in_flight(const std::atomic<bool>& is_ending);
    void call_driver();
    LeftAlone& left_alone() { return left_alone_; }

    // Call if an operation cannot even be started here, although the other ranks start it. All ranks are
    // told, as after any failure, unless the failure is the same on all of them (a caller's mistake, a
    // schedule that is refused or does not exist).
    void cannot_start(const std::exception& error);

    // Aborts the communicator: ends all calls that are under way, and tells the other ranks.
    void abort(const std::string& reason);

    void while_still(const std::function<void()>& action);

    // Returns the failure, if any. Never throws; checks the job's health, and starts left on streams.
    std::optional<Failure> failure();

    // Enclose a collective operation that makes its progress elsewhere. It takes a number among the
    // operations, so that ranks that start something else meanwhile are detected. begin_elsewhere() returns
    // the number.
    std::uint64_t begin_elsewhere(const std::shared_ptr<const record::Label>& label);
    void end_elsewhere(std::uint64_t number, Status status);

    std::uint64_t started();  // the number of collectives so far
    // Returns the last operations, and the positions of those in flight, without the origin.
    record::Recording recording();
    // Called at the first failure, with the operations that were in flight before it, while the gate is held;
    // empty: no call. It must not throw.
    using Failed = std::function<void(record::Recording recording)>;
    void on_failure(Failed failed);
    // Sets the name under which other communicators of the process mention this one.
    void call(std::string name) { sibling_.call(std::move(name)); }
    // Call before the first start. Null: no tracing. The tracer must outlive this.
    void trace(Tracer* tracer) { tracer_ = tracer; }
    // Call before the first start: private buffers that starts use again and again become shared.
    void share_buffers() {
        if (local_peers_) buffer_uses_.emplace(local_peers_->window());
    }

  private:
    class Presence;

    bool run_at_once(StartablePlan& plan, const Extent& extent, const void* send, void* recv, double factor);
    Execution& begin(const std::shared_ptr<StartablePlan>& plan, const Extent& extent, const void* send,
                     void* recv, double factor, std::optional<std::chrono::milliseconds> limit,
                     const device::Buffers* buffers);
    Execution& make_execution(StartablePlan& plan, Start& start, const device::Buffers* buffers);
    void put_in_flight(Execution& execution, const Start& start);
    void leave_on_stream(Execution& execution);
    void look_at_streams();
    void advance_begun(Execution& execution, const Start& start, std::chrono::milliseconds limit);
    void set_deadlines(Execution& execution, std::chrono::milliseconds limit) const;
    MessageRequest& begin(MessageStart message, const device::Buffers* buffers);
    bool step();  // true if anything moved
    bool advance_all();
    bool advance(Execution& execution, std::uint64_t& budget);
    void note_movement();
    bool advance_messages();
    void look_at_messages();
    // Both accept any type that has status_of_all().
    template <typename Started>
    bool has_ended(const Started& started);
    template <typename Ended>
    bool wait_for_others(Gate::Visit& visit, Clock::time_point until, Ended ended);
    template <typename Started>
    bool test_and_finish(Started& started);
    template <typename Started>
    bool wait_and_finish(Started& started, Clock::time_point until);
    // Returns true if nothing is in flight.
    bool is_idle() const { return in_flight_.empty() && messages_.is_idle(); }
    InFlight in_flight() const { return {in_flight_, messages_.open()}; }
    bool is_alone() const { return local_peers_ == nullptr && fabric_ == nullptr; }
    void arrived(const transport::Completion& completion);
    void message_arrived(const transport::Completion& completion);
    std::size_t window() const;
    void require_lent(const Request& request) const;
    void announce();
    std::uint64_t completed() const;
    void retire();
    void give_back_ended();
    // Return the tensors still to be copied to the caller, without the gate; null if there are none.
    std::unique_ptr<GatheredTensors> finish(Execution& execution);
    std::unique_ptr<GatheredTensors> finish(MessageRequest& request);
    template <typename Call>
    void leave_to_device(Call hand_over);
    template <typename Ended>
    void drive(Gate::Visit& visit, Clock::time_point until, Ended ended);
    void sleep(Gate::Visit& visit, Clock::time_point now, Clock::time_point until);
    void watch(Clock::time_point now);
    void watch_deadlines(Clock::time_point now);
    void watch_graphs();
    void watch_departures(Clock::time_point now);
    void watch_standstill(Clock::time_point now);
    std::optional<transport::Account> account_of(std::uint64_t number);  // locks the gate
    std::optional<std::string> awaited();  // nullopt, too, while a thread holds the gate
    transport::Idleness idleness_in(const transport::Account& account) const;  // call without the gate
    std::map<int, transport::Idleness> idle_ranks() const;  // other ranks, in the oldest operation
    std::optional<transport::Account> account_now(std::uint64_t number) const;
    template <typename HasCome>
    bool linger(Clock::time_point until, HasCome has_come);
    std::optional<int> departed_peer_of(const MessageStart& message) const;
    std::optional<int> departed_peer() const;
    std::int64_t start_of(std::int64_t sequence) const;
    void hear_bad_news();
    std::optional<Failure> bad_news() const;  // from the other ranks
    void tell_others(const Failure& failure);
    void fail(Failure failure);
    void fail_mismatch(const Execution& execution, Disagreement disagreement);
    void fail_here(const std::exception& error);
    void fail_moving(const Error& error);
    void fail_fabric(const std::string& reason, int peer);
    void fail_departure(int peer);
    void let_go();
    record::Recording recording_now() const;
    bool is_attended() const;  // a thread is making progress, or often calls

    transport::Bootstrap& bootstrap_;
    LocalPeers* local_peers_;
    transport::Fabric* fabric_;
    std::chrono::milliseconds timeout_;

    Gate gate_;                               // guards all members below
    std::vector<Execution*> in_flight_;       // oldest first
    std::vector<Execution*> lent_;            // to the caller: in flight, or ended but not yet collected
    std::vector<Execution*> left_on_stream_;  // of them: those that nobody will collect
    std::vector<transport::Completion> completions_;
    std::uint64_t started_ = 0, next_sequence_ = 0;  // so far; the next tile's sequence number
    std::uint64_t history_ = 0;         // hash of all starts: once ranks differ, they never agree again
    std::vector<std::int64_t> agreed_;  // by peer: the last start on which its messages agreed; or -1
    std::optional<Failure> failure_;
    Failed on_failure_;
    record::Flight flight_;
    Tracer* tracer_ = nullptr;
    std::optional<BufferUses> buffer_uses_;  // if they are counted
    LeftAlone left_alone_;
    Endings endings_;
    bool somebody_left_ = false, is_leaving_ = false;
    std::optional<Clock::time_point> stranded_since_;  // since then waiting for a rank that has left

    // The times at which this rank tells the others that its oldest operation makes no progress, and that
    // operation's sequence number.
    transport::Impatience impatience_{Clock::time_point{}};
    std::uint64_t awaited_sequence_ = UINT64_MAX;
    bool has_moved_ = false;  // something has moved since the last check
    Clock::time_point stands_since_{};

    Yields yields_;
    DeadlineClock deadline_clock_;
    SharedKernels kernels_;

    PointToPoint messages_;
    Sibling sibling_;
    Answers answers_;  // the last member, because its thread uses the others
};

}  // namespace hocket::engine
