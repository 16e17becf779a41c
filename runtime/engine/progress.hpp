// Drives a communicator's operations: takes what the fabric has, runs what is ready, waits, and notices when
// an operation will never end.
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
#include "runtime/engine/answers.hpp"
#include "runtime/engine/endings.hpp"
#include "runtime/engine/gate.hpp"
#include "runtime/engine/left_alone.hpp"
#include "runtime/engine/messages/point_to_point.hpp"
#include "runtime/engine/record/flight.hpp"
#include "runtime/engine/record/recording.hpp"
#include "runtime/engine/reports/failure.hpp"
#include "runtime/engine/reports/tracer.hpp"
#include "runtime/engine/run/execution.hpp"
#include "runtime/engine/siblings.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// All functions are thread-safe. The first failure is final: from then on everything throws it.
class Progress {
  public:
    using Clock = Execution::Clock;

    // local_peers: the ranks of this host that share memory with this one; null if there are none. fabric:
    // leads to the other ranks; null if there are none.
    Progress(transport::Bootstrap& bootstrap, LocalPeers* local_peers, transport::Fabric* fabric,
             std::chrono::milliseconds timeout);
    ~Progress();

    // The caller gets the execution, to be given to wait() or test(). factor: as in Start. limit: replaces
    // the communicator's timeout, for a rank that is about to leave; when it passes, other ranks aren't told.
    // buffers: null if all are the host's. Throws hocket::Error.
    Execution& start(const std::shared_ptr<StartablePlan>& plan, Extent extent, const void* send, void* recv,
                     double factor = 1, std::optional<std::chrono::milliseconds> limit = std::nullopt,
                     const device::Buffers* buffers = nullptr);

    // start() and wait() in one.
    void run(const std::shared_ptr<StartablePlan>& plan, Extent extent, const void* send, void* recv,
             double factor = 1, const device::Buffers* buffers = nullptr);

    // True: it has ended, and is no longer the caller's. Throws its failure (then it is also gone).
    bool test(Execution& execution);
    // Like test, once it has ended or the time has come.
    bool wait(Execution& execution, Clock::time_point until = Clock::time_point::max());

    // The same for a message to or from one other rank.
    MessageRequest& start(const MessageStart& message, const device::Buffers* buffers = nullptr);
    void run(const MessageStart& message, const device::Buffers* buffers = nullptr);
    bool test(MessageRequest& request);
    bool wait(MessageRequest& request, Clock::time_point until = Clock::time_point::max());

    // Waits until one of the collectives and messages has ended, or the time has come; they stay the
    // caller's. Returns the place of the first that has ended.
    std::optional<std::size_t> wait_any(std::span<Request* const> requests, Clock::time_point until);

    // Tells the program once the collective or message has ended; at once if it has.
    void tell_end(const Request& request, Endings::Way way);
    // The thread that makes the calls. No gate is needed for it.
    Caller& caller() { return endings_.caller(); }

    // Waits until no collective is in flight: for a thread that is going to wait for something that does not
    // move them.
    void finish_collectives();

    // Moves what is in flight until nothing is, or the time has come. True: nothing is.
    bool move_until(Clock::time_point until);

    // For a thread that moves what nobody else moves: returns once nothing is in flight, or another thread
    // waits and does that itself, or is_ending holds and call_driver() was called. Never throws.
    void drive_what_is_in_flight(const std::atomic<bool>& is_ending);
    void call_driver();
    LeftAlone& left_alone() { return left_alone_; }

    // To be called if a start cannot even begin here, although the others make it, too. All ranks are told,
    // as after any failure, unless it is the same on all of them (a mistake of the caller, a schedule that is
    // refused or does not exist).
    void cannot_start(const std::exception& error);

    // This rank gives up. Ends all calls that are under way, and tells the other ranks.
    void abort(const std::string& reason);

    void while_still(const std::function<void()>& action);

    // Never throws; looks at the job's health, but not at the fabric.
    std::optional<Failure> failure();

    // Around what is collective and does not move here: it takes a number among the operations, so that ranks
    // that start something else meanwhile are found. Returns the number.
    std::uint64_t begin_elsewhere(const std::shared_ptr<const record::Label>& label);
    void end_elsewhere(std::uint64_t number, Status status);

    std::uint64_t started();  // how many collectives, so far
    // What the last operations were, and where those in flight stand. Who and where this is, is left out.
    record::Recording recording();
    // Called at the first failure, with what was in flight before it, while the gate is held; empty: nothing
    // is. It must not throw.
    using Failed = std::function<void(record::Recording recording)>;
    void on_failure(Failed failed);
    // What to call this communicator where another one of the process tells of it.
    void call(std::string name) { sibling_.call(std::move(name)); }
    // To be called before the first start. Null: nothing is traced. It must outlive this.
    void trace(Tracer* tracer) { tracer_ = tracer; }

  private:
    bool run_at_once(StartablePlan& plan, Extent extent, const void* send, void* recv, double factor);
    Execution& begin(const std::shared_ptr<StartablePlan>& plan, Extent extent, const void* send, void* recv,
                     double factor, std::optional<std::chrono::milliseconds> limit,
                     const device::Buffers* buffers);
    MessageRequest& begin(MessageStart message, const device::Buffers* buffers);
    bool step();  // true if anything moved
    bool advance_all();
    bool advance_messages();
    void look_at_messages();
    // Both take anything that has status_of_all().
    template <typename Started>
    bool has_ended(const Started& started);
    template <typename Ended>
    bool wait_for_others(Gate::Visit& visit, Clock::time_point until, Ended ended);
    template <typename Started>
    bool test_and_finish(Started& started);
    template <typename Started>
    bool wait_and_finish(Started& started, Clock::time_point until);
    // True if nothing is in flight.
    bool is_idle() const { return in_flight_.empty() && messages_.is_idle(); }
    InFlight in_flight() const { return {in_flight_, messages_.open()}; }
    bool is_alone() const { return local_peers_ == nullptr && fabric_ == nullptr; }
    void arrived(const transport::Completion& completion);
    void message_arrived(const transport::Completion& completion);
    std::size_t window() const;
    void require_lent(const Request& request) const;
    void announce();
    void retire();
    // What has to be copied to the caller yet, without the gate; null: nothing.
    std::unique_ptr<GatheredTensors> finish(Execution& execution);
    std::unique_ptr<GatheredTensors> finish(MessageRequest& request);
    template <typename Call>
    void leave_to_device(Call hand_over);
    template <typename Ended>
    void drive(Gate::Visit& visit, Clock::time_point until, Ended ended);
    bool spin(Clock::time_point now);  // false: it is better to sleep
    void sleep(Gate::Visit& visit, Clock::time_point now, Clock::time_point until);
    void watch(Clock::time_point now);
    void watch_deadlines(Clock::time_point now);
    void watch_departures(Clock::time_point now);
    void watch_standstill(Clock::time_point now);
    std::optional<transport::Account> account_of(std::uint64_t number);  // visits the gate
    std::optional<std::string> awaited();  // none also while somebody is at work
    transport::Idleness idleness_in(const transport::Account& account) const;  // not while the gate is held
    std::map<int, transport::Idleness> idle_ranks() const;  // others, in the oldest operation
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
    void come_in();
    void go_out();
    bool is_attended() const;  // a thread moves what is in flight, or comes by often

    transport::Bootstrap& bootstrap_;
    LocalPeers* local_peers_;
    transport::Fabric* fabric_;
    std::chrono::milliseconds timeout_;
    Clock::duration spin_time_, long_yield_;

    Gate gate_;                          // guards everything that follows
    std::vector<Execution*> in_flight_;  // oldest first
    std::vector<Execution*> lent_;       // with the caller: in flight, or ended and not yet asked for
    std::vector<transport::Completion> completions_;
    std::uint64_t started_ = 0, next_sequence_ = 0;  // so far; the next tile's sequence number
    std::uint64_t history_ = 0;         // of all starts: once ranks differ, they never agree again
    std::vector<std::int64_t> agreed_;  // by peer: the last start on which its messages agreed; -1
    std::optional<Failure> failure_;
    Failed on_failure_;
    record::Flight flight_;
    Tracer* tracer_ = nullptr;
    LeftAlone left_alone_;
    Endings endings_;
    bool somebody_left_ = false, is_leaving_ = false;
    std::optional<Clock::time_point> stranded_since_;  // waiting for a rank that has left

    // Since when the oldest operation stands still, and this rank says so; that operation's sequence number.
    transport::Impatience impatience_{Clock::time_point{}};
    std::uint64_t awaited_sequence_ = UINT64_MAX;
    bool has_moved_ = false;  // anything, since somebody looked
    Clock::time_point stands_since_{};

    int waits_without_yield_ = 0;

    // The clock of the deadlines stands still while operations are in flight and the application is busy with
    // other things, so that a late hkt_wait alone is not a timeout.
    Clock::time_point last_seen_{};
    Clock::duration away_{0};

    PointToPoint messages_;
    Sibling sibling_;
    Answers answers_;  // the last member: its thread uses the others
};

}  // namespace hocket::engine
