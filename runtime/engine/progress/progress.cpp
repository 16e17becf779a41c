#include "runtime/engine/progress/progress.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "runtime/base/caught.hpp"
#include "runtime/device/staging.hpp"
#include "runtime/engine/messages/stage_message.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/reports/in_flight.hpp"
#include "runtime/engine/run/kernel_start.hpp"
#include "runtime/engine/run/small_run.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/run/startable_plan.hpp"
#include "runtime/engine/run/tiles.hpp"

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto attended_for = 500ms;   // after a call, for programs that test repeatedly
constexpr auto watch_interval = 10ms;  // between checks of the job's health while messages flow

constexpr auto longest_sleep = 1s;
constexpr std::uint64_t elsewhere = 0x656c736577686572;   // identity of operations outside Progress
constexpr std::uint64_t on_devices = 0x6f6e646576696365;  // of starts that all ranks run as kernels
constexpr auto sleep_after_departure = 20ms;
constexpr auto sleep_beside_copies = 100us;  // a device rings no bell

[[noreturn]] void refuse_request() {
    throw Error(
        Status::invalid_argument,
        "this request is not in flight: was it waited for before? A request ends with hkt_wait, or with "
        "an hkt_test that does not return HKT_IN_PROGRESS");
}

Status status_of(const Request& request) {
    return request.type == Request::Type::message
               ? static_cast<const MessageRequest&>(request).status_of_all()
               : static_cast<const Execution&>(request).status_of_all();
}

// Returns true if the execution or message has ended.
template <typename Started>
struct HasEnded {
    explicit HasEnded(const Started& of) : started(of) {}
    bool operator()() const { return started.status_of_all() != Status::in_progress; }
    const Started& started;
};

}  // namespace

// A thread's presence in a call that moves operations; made with the gate held. If nothing is in flight,
// there are no deadlines. If another thread drives, the clock of the deadlines goes on already.
class Progress::Presence {
  public:
    explicit Presence(Progress& progress) : progress_(progress) {
        if (progress_.is_idle() || progress_.gate_.driven()) return;
        progress_.deadline_clock_.come_in(Clock::now());
    }
    ~Presence() {
        if (progress_.is_idle())
            progress_.left_alone_.note_idle();
        else
            progress_.deadline_clock_.go_out(Clock::now());
    }
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

  private:
    Progress& progress_;
};

Progress::Progress(transport::Bootstrap& bootstrap, LocalPeers* local_peers, transport::Fabric* fabric,
                   std::chrono::milliseconds timeout)
    : bootstrap_(bootstrap),
      local_peers_(local_peers),
      fabric_(fabric),
      timeout_(timeout),
      completions_(64),
      agreed_(static_cast<std::size_t>(bootstrap.world_size()), -1),
      yields_(local_peers ? local_peers->ranks_per_core() : 1),
      deadline_clock_(timeout),
      messages_(bootstrap.rank(), bootstrap.world_size(), local_peers, fabric),
      sibling_([this] { return awaited(); }),
      answers_(bootstrap, [this](std::uint64_t number) { return account_of(number); }) {}

Progress::~Progress() {
    answers_.finish();  // its thread uses executions
    if (!(in_flight_.empty() && messages_.is_quiet()) && !failure_) {
        let_go();
        if (fabric_) fabric_->abandon();
        if (local_peers_) local_peers_->window().quarantine();
    }
    for (Execution* execution : lent_) give_back(*execution);
}

Execution& Progress::start(const std::shared_ptr<StartablePlan>& plan, const Extent& extent, const void* send,
                           void* recv, double factor, std::optional<std::chrono::milliseconds> limit,
                           const device::Buffers* buffers) {
    Gate::Visit visit(gate_);
    const Presence presence(*this);
    Execution& execution = begin(plan, extent, send, recv, factor, limit, buffers);
    // One that is to come on the caller's stream does so in the call; the first of a plan waits for all
    // ranks.
    wait_for_others(visit, Clock::time_point::max(), [&] { return !execution.holds_call(); });
    if (execution.status_of_all() == Status::in_progress) left_alone_.note_start();
    return execution;
}

void Progress::run(const std::shared_ptr<StartablePlan>& plan, const Extent& extent, const void* send,
                   void* recv, double factor, const device::Buffers* buffers) {
    Gate::Visit visit(gate_);
    const bool may_end_at_once = is_idle() && !failure_ && !buffers && !bootstrap_.has_bad_news();
    if (may_end_at_once && run_at_once(*plan, extent, send, recv, factor)) return;
    const Presence presence(*this);
    Execution& execution = begin(plan, extent, send, recv, factor, std::nullopt, buffers);
    const HasEnded has_ended(execution);
    wait_for_others(visit, Clock::time_point::max(), [&] { return execution.is_on_stream() || has_ended(); });
    if (!has_ended()) return leave_on_stream(execution);
    finish(execution);
}

// Nobody waits for the execution's end: retire() gives it back, and a failure is told by the next call.
void Progress::leave_on_stream(Execution& execution) {
    left_on_stream_.push_back(&execution);
    left_alone_.note_start();
}

// In a program that makes blocking starts alone, nobody else looks at what they have left on streams. Kernels
// run one after another, so the first that has not ended says enough.
void Progress::look_at_streams() {
    if (failure_ || left_on_stream_.empty() || gate_.driven()) return;
    try {
        for (Execution* execution : left_on_stream_) {
            std::uint64_t budget = Execution::local_budget_bytes;
            if (advance(*execution, budget)) note_movement();
            if (failure_ || execution->status() == Status::in_progress) break;
        }
        retire();
    } catch (const Error& error) {
        fail_moving(error);
    } catch (const std::exception& error) {
        fail_here(error);
    }
    if (!left_on_stream_.empty()) watch(Clock::now());
}

std::optional<Failure> Progress::failure() {
    Gate::Visit visit(gate_);
    if (!failure_ && !is_alone())
        if (auto news = bad_news()) fail(std::move(*news));
    // Nobody else may look at starts that have been left on streams.
    if (!failure_ && !left_on_stream_.empty() && !gate_.driven()) {
        const Presence presence(*this);
        step();
        watch(Clock::now());
    }
    if (!failure_) watch_graphs();
    return failure_;
}

void Progress::finish_on_stream() {
    Gate::Visit visit(gate_);
    const Presence presence(*this);
    wait_for_others(visit, Clock::time_point::max(), [&] { return left_on_stream_.empty() || failure_; });
}

// Returns false if it has done nothing that begin() would not do again.
bool Progress::run_at_once(StartablePlan& plan, const Extent& extent, const void* send, void* recv,
                           double factor) {
    if (!plan.small_run()) return false;
    const std::uint64_t history = mix(history_, plan.identity(extent));
    const record::Moment began = tracer_ ? Tracer::now() : 0;
    try {
        if (!plan.small_run()->run(plan, *local_peers_, extent.count, send, recv, factor, next_sequence_,
                                   static_cast<std::uint32_t>(history >> 32)))
            return false;
    } catch (const std::exception& error) {
        fail_here(error);
        throw;
    }
    history_ = history;
    if (tracer_) tracer_->add_done(*plan.label(), started_, extent.count, began);
    flight_.note_done(plan.label(), started_++, extent.count, static_cast<std::uint32_t>(history >> 32));
    local_peers_->complete(++next_sequence_);
    return true;
}

Execution& Progress::begin(const std::shared_ptr<StartablePlan>& plan, const Extent& extent, const void* send,
                           void* recv, double factor, std::optional<std::chrono::milliseconds> limit,
                           const device::Buffers* buffers) {
    look_at_streams();
    if (failure_) throw Error(failure_->status, failure_->text);
    if (plan->computer() || extent.arguments) plan->check_arguments(extent.arguments.get(), extent.count);
    const bool is_kernel = buffers && KernelStart::is_for(*plan, extent, *buffers);
    const std::uint64_t identity = plan->identity(extent);
    const std::uint64_t history = mix(history_, is_kernel ? mix(identity, on_devices) : identity);
    Start start{.plan = plan.get(),
                .count = extent.count,
                .uneven = extent.uneven,
                .send = static_cast<const std::byte*>(send),
                .recv = static_cast<std::byte*>(recv),
                .is_kernel = is_kernel,
                .factor = factor,
                .arguments = extent.arguments,
                .number = started_,
                .sequence = next_sequence_,
                .checksum = static_cast<std::uint32_t>(history >> 32),
                .identity = identity};
    flight_.begin(plan->label(), started_, extent.count, start.checksum);
    const record::Moment began = tracer_ ? Tracer::now() : 0;
    Execution& execution = make_execution(*plan, start, buffers);
    if (tracer_) tracer_->begin(execution, began);
    put_in_flight(execution, start);
    history_ = history;
    is_leaving_ = limit.has_value();
    advance_begun(execution, start, limit.value_or(timeout_));
    retire();
    if (tracer_) tracer_->look(in_flight_);
    // Most small operations have ended by now and need no deadline, so no clock is read for them.
    if (execution.status_of_all() == Status::in_progress) set_deadlines(execution, limit.value_or(timeout_));
    return execution;
}

// Takes all that the start needs, so that put_in_flight() cannot fail.
Execution& Progress::make_execution(StartablePlan& plan, Start& start, const device::Buffers* buffers) {
    ResolvedBuffers resolved;
    try {
        divide(start);
        if (buffer_uses_ && !buffers) buffer_uses_->note(start);
        const bool has_adopted = local_peers_ && local_peers_->window().has_adopted();
        if (buffers || has_adopted)
            resolved =
                ResolvedBuffers(start, buffers, kernels_, has_adopted ? &local_peers_->window() : nullptr);
        lent_.reserve(lent_.size() + 1);
        in_flight_.reserve(in_flight_.size() + start.tiles());
        Execution& execution =
            begin_tiles(plan, start, plan.program().local_peers.empty() ? nullptr : local_peers_);
        execution.keep(std::move(resolved));
        return execution;
    } catch (const std::exception& error) {
        // The other ranks will start this operation and wait for it.
        fail_here(error);
        flight_.end(started_, error_of(error).status(), record::coarse_now());
        throw;
    }
}

void Progress::put_in_flight(Execution& execution, const Start& start) {
    lent_.push_back(&execution);
    for (Execution* tile = &execution; tile; tile = tile->next_tile()) in_flight_.push_back(tile);
    ++started_;
    next_sequence_ += start.tiles();
}

// Advances the start that was put in flight last, as far as it goes without waiting. The thread that waits
// for it continues it. But a lone rank waits for nothing but a device, so it completes the operation here.
void Progress::advance_begun(Execution& execution, const Start& start, std::chrono::milliseconds limit) {
    const std::size_t older = in_flight_.size() - start.tiles();
    try {
        hear_bad_news();
        do {
            std::uint64_t budget = Execution::local_budget_bytes;
            if (!failure_ && window() > older) execution.advance(fabric_, budget);
        } while (is_alone() && !start.staging && execution.status() == Status::in_progress);
        if (!failure_ && execution.run().disagreement())
            fail_mismatch(execution, *execution.run().disagreement());
    } catch (const Error& error) {
        set_deadlines(execution, limit);
        fail_moving(error);
    } catch (const std::exception& error) {
        fail_here(error);
    }
}

void Progress::set_deadlines(Execution& execution, std::chrono::milliseconds limit) const {
    const auto deadline = deadline_clock_.at(Clock::now()) + limit;
    for (Execution* tile = &execution; tile; tile = tile->next_tile()) tile->set_deadline(deadline);
}

void Progress::while_still(const std::function<void()>& action) {
    Gate::Visit visit(gate_);
    action();
}

MessageRequest& Progress::start(const MessageStart& message, const device::Buffers* buffers) {
    Gate::Visit visit(gate_);
    const Presence presence(*this);
    MessageRequest& request = begin(message, buffers);
    if (request.status_of_all() == Status::in_progress) left_alone_.note_start();
    return request;
}

void Progress::run(const MessageStart& message, const device::Buffers* buffers) {
    Gate::Visit visit(gate_);
    const Presence presence(*this);
    MessageRequest& request = begin(message, buffers);
    wait_for_others(visit, Clock::time_point::max(), HasEnded(request));
    finish(request);
}

MessageRequest& Progress::begin(MessageStart message, const device::Buffers* buffers) {
    look_at_streams();
    if (failure_) throw Error(failure_->status, failure_->text);
    MessageRequest* begun = nullptr;
    try {
        std::unique_ptr<device::DirectBuffer> direct;
        std::unique_ptr<device::Staging> staging;
        if (buffers && messages_.may_go_direct(message)) direct = leave_on_device(message, *buffers);
        if (buffers && !direct) staging = stage(message, *buffers);
        begun = &messages_.make(message);
        begun->staging = std::move(staging);
        begun->direct = std::move(direct);
    } catch (const std::exception& error) {
        // The other rank will wait for this message.
        fail_here(error);
        throw;
    }
    const auto set_deadline = [&] { begun->deadline = deadline_clock_.at(Clock::now()) + timeout_; };
    try {
        begun->note = flight_.begin_message(message.direction == Direction::send, message.peer, message.tag,
                                            message.bytes);
        if (tracer_) tracer_->begin(*begun);
        messages_.begin(*begun);
        look_at_messages();
    } catch (const Error& error) {
        set_deadline();
        fail_moving(error);
    } catch (const std::exception& caught) {
        // This is a failure even if no other rank waits for the message, because a part of it has begun.
        const Error error = error_of(caught);
        if (!failure_) fail(could_not_go_on(error.status(), error.what(), bootstrap_.rank(), in_flight()));
    }
    if (begun->status == Status::in_progress) set_deadline();
    return *begun;
}

template <typename Started>
bool Progress::has_ended(const Started& started) {
    const auto is_open = [&] { return started.status_of_all() == Status::in_progress; };
    const Presence presence(*this);
    if (is_open() && !gate_.driven()) {
        step();
        if (is_open()) watch(Clock::now());
    }
    return !is_open();
}

bool Progress::test(Execution& execution) {
    return test_and_finish(execution);
}

bool Progress::test(MessageRequest& request) {
    return test_and_finish(request);
}

template <typename Started>
bool Progress::test_and_finish(Started& started) {
    std::unique_ptr<GatheredTensors> tensors;
    {
        Gate::Visit visit(gate_);
        require_lent(started);
        if (!has_ended(started)) return false;
        tensors = finish(started);
    }
    if (tensors) tensors->finish();
    return true;
}

bool Progress::wait(Execution& execution, Clock::time_point until) {
    return wait_and_finish(execution, until);
}

bool Progress::wait(MessageRequest& request, Clock::time_point until) {
    return wait_and_finish(request, until);
}

template <typename Started>
bool Progress::wait_and_finish(Started& started, Clock::time_point until) {
    std::unique_ptr<GatheredTensors> tensors;
    bool ended = false;
    {
        Gate::Visit visit(gate_);
        require_lent(started);
        const Presence presence(*this);
        ended = wait_for_others(visit, until, HasEnded(started));
        if (ended) tensors = finish(started);
    }
    if (tensors) tensors->finish();
    return ended;
}

std::optional<std::size_t> Progress::wait_any(std::span<Request* const> requests, Clock::time_point until) {
    Gate::Visit visit(gate_);
    for (const Request* request : requests) require_lent(*request);
    std::optional<std::size_t> first;
    const Presence presence(*this);
    wait_for_others(visit, until, [&] {
        for (std::size_t i = 0; i < requests.size() && !first; ++i)
            if (status_of(*requests[i]) != Status::in_progress) first = i;
        return first.has_value();
    });
    return first;
}

void Progress::tell_end(const Request& request, Endings::Way way) {
    Gate::Visit visit(gate_);
    require_lent(request);
    endings_.add(request, std::move(way));
    announce();
}

// Announces that an operation may have ended.
void Progress::announce() {
    gate_.announce();
    endings_.look([](const Request& request) { return status_of(request) != Status::in_progress; });
}

// Returns false if the time came first.
template <typename Ended>
bool Progress::wait_for_others(Gate::Visit& visit, Clock::time_point until, Ended ended) {
    if (!ended() && visit.become_driver(ended, until)) drive(visit, until, ended);
    return ended();
}

void Progress::drive_what_is_in_flight(const std::atomic<bool>& is_ending) {
    Gate::Visit visit(gate_);
    visit.let_drive([&] { return is_ending.load(); });
    const auto is_over = [&] { return is_idle() || gate_.is_followed() || is_ending; };
    const Presence presence(*this);
    wait_for_others(visit, Clock::time_point::max(), is_over);
}

void Progress::finish_collectives() {
    Gate::Visit visit(gate_);
    const Presence presence(*this);
    wait_for_others(visit, Clock::time_point::max(), [&] { return in_flight_.empty(); });
    if (failure_) throw Error(failure_->status, failure_->text);
}

bool Progress::move_until(Clock::time_point until) {
    Gate::Visit visit(gate_);
    const Presence presence(*this);
    return wait_for_others(visit, until, [&] { return is_idle(); });
}

std::uint64_t Progress::begin_elsewhere(const std::shared_ptr<const record::Label>& label) {
    const Gate::Visit visit(gate_);
    if (failure_) throw Error(failure_->status, failure_->text);
    history_ = mix(history_, elsewhere);
    flight_.begin(label, started_, 0, static_cast<std::uint32_t>(history_ >> 32));
    return started_++;
}

void Progress::end_elsewhere(std::uint64_t number, Status status) {
    const Gate::Visit visit(gate_);
    flight_.end(number, status, record::coarse_now());
}

std::uint64_t Progress::started() {
    const Gate::Visit visit(gate_);
    return started_;
}

record::Recording Progress::recording() {
    const Gate::Visit visit(gate_);
    return recording_now();
}

record::Recording Progress::recording_now() const {
    record::Recording recording = recording_of(flight_, in_flight());
    recording.started = started_;
    recording.is_idle = !in_flight_.empty() && !is_attended();
    if (failure_) recording.failure = failure_->text;
    // Ranks that have ended after a reported failure are lost because of it.
    const auto loss = bootstrap_.reported() ? std::nullopt : bootstrap_.loss();
    if (loss) recording.lost = loss->rank;
    return recording;
}

void Progress::on_failure(Failed failed) {
    const Gate::Visit visit(gate_);
    on_failure_ = std::move(failed);
}

void Progress::call_driver() {
    Gate::Visit visit(gate_);
    gate_.call_all();
}

// Refuses a request that is no longer lent: its result was collected. Its memory is kept for the next start,
// so the use of a request that is over can be detected.
void Progress::require_lent(const Request& request) const {
    const bool is_lent = request.type == Request::Type::message
                             ? static_cast<const MessageRequest&>(request).is_lent
                             : std::find(lent_.begin(), lent_.end(), &request) != lent_.end();
    if (!is_lent) refuse_request();
}

// Collects an execution that has ended, and gives it back to its plan.
std::unique_ptr<GatheredTensors> Progress::finish(Execution& execution) {
    const Status status = execution.status_of_all();
    lent_.erase(std::find(lent_.begin(), lent_.end(), &execution));
    ResolvedBuffers buffers = execution.take_buffers();
    give_back(execution);
    if (status != Status::success) throw Error(failure_->status, failure_->text);
    leave_to_device([&] { buffers.write_back(); });
    return buffers.take_tensors();
}

// Takes the last step of an operation. If the device refuses it, the operation has failed after all.
template <typename Call>
void Progress::leave_to_device(Call hand_over) {
    try {
        hand_over();
    } catch (const Error& error) {
        fail_moving(error);
        throw;
    }
}

std::unique_ptr<GatheredTensors> Progress::finish(MessageRequest& request) {
    const Status status = request.status;
    const std::unique_ptr<device::Staging> staging = std::move(request.staging);
    const MessageStart start = request.start;
    messages_.release(request);
    if (status != Status::success) throw Error(failure_->status, failure_->text);
    if (staging) leave_to_device([&] { hand_over(*staging, start); });
    return nullptr;
}

template <typename Ended>
void Progress::drive(Gate::Visit& visit, Clock::time_point until, Ended ended) {
    auto quiet_since = Clock::time_point::max(), watched = Clock::now();
    yields_.begin_wait();
    while (!ended()) {
        visit.step_aside();
        if (ended()) return;  // a visitor may have completed the operation
        const bool moved = step();
        const auto now = Clock::now();
        if (now >= until) return watch(now);
        if (now - watched > watch_interval) {
            watch(now);
            watched = now;
        }
        if (moved) {
            quiet_since = Clock::time_point::max();
            yields_.note_movement();
            continue;
        }
        quiet_since = std::min(quiet_since, now);
        if (yields_.may_go_on(now - quiet_since)) {
            sched_yield();
            yields_.note_yield(Clock::now() - now);
            continue;
        }
        watch(now);
        if (failure_) continue;
        yields_.note_sleep();
        sleep(visit, now, until);
    }
}

void Progress::sleep(Gate::Visit& visit, Clock::time_point now, Clock::time_point until) {
    Clock::duration at_most = somebody_left_ ? Clock::duration(sleep_after_departure) : longest_sleep;
    at_most = std::min(at_most, until - now);
    for (const Execution* execution : in_flight_) {
        at_most = std::min(at_most, deadline_clock_.when(execution->deadline()) - now);
        if (execution->waits_for_device()) at_most = std::min(at_most, Clock::duration(sleep_beside_copies));
    }
    for (const MessageRequest* message : messages_.open())
        if (waits_for_device(*message)) at_most = std::min(at_most, Clock::duration(sleep_beside_copies));
    if (!messages_.open().empty())  // the oldest has the first deadline
        at_most = std::min(at_most, deadline_clock_.when(messages_.open().front()->deadline) - now);
    if (!in_flight_.empty() && !is_alone()) at_most = std::min(at_most, impatience_.due() - now);
    // Once a rank has left, the event descriptor stays readable, and would end every sleep at once.
    pollfd others[] = {{gate_.bell_fd(), POLLIN, 0},
                       {local_peers_ ? local_peers_->window().doorbell_fd() : -1, POLLIN, 0},
                       {bootstrap_.event_fd(), POLLIN, 0}};
    const std::span<pollfd> watched(others, somebody_left_ ? 2 : 3);
    if (local_peers_) {
        // A local peer that signalled before it could see that this rank is asleep rang no bell.
        local_peers_->fall_asleep();
        if (step()) return local_peers_->wake_up();
    }
    std::optional<std::string> broken;
    visit.asleep([&] {
        try {
            const auto time =
                std::chrono::ceil<std::chrono::microseconds>(std::max(at_most, Clock::duration(0)));
            if (fabric_) return fabric_->wait(watched, time);
            // ppoll, because the unit of poll(2) is longer than sleep_beside_copies.
            const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
            const timespec limit{seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
            ppoll(watched.data(), watched.size(), &limit, nullptr);
        } catch (const std::exception& error) {  // no exception may leave, because the gate is open
            broken = error.what();
        }
    });
    if (local_peers_) local_peers_->wake_up();
    if (broken && !failure_) fail_fabric(*broken, -1);
}

bool Progress::is_attended() const {
    return gate_.driven() || Clock::now() - deadline_clock_.last_seen() < attended_for;
}

}  // namespace hocket::engine
