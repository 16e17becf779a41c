#include "runtime/engine/exchanges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "runtime/base/log.hpp"
#include "runtime/engine/reports/failure.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds goodbye_limit{500};
constexpr auto verdict_on_absence_within = 1s;  // time for rank 0 to say which ranks have not come

// Uses the library's own choice of schedule, whatever schedule the communicator has.
PlanChoice rendezvous_choice(DataType type = DataType::int32, compute::Reduction op = ReduceOp::sum) {
    return {.type = type,
            .op = std::move(op),
            .schedule = "",
            .executor = ExecutorKind::interpreter,
            .is_for_rendezvous = true};
}

std::shared_ptr<StartablePlan> rendezvous_like(const StartablePlan& plan, const std::string& purpose) {
    return StartablePlan::make(plan.program(), plan.type(), plan.op(), ExecutorKind::interpreter,
                               {.purpose = purpose});
}

}  // namespace

// Runs over the fabric, as an all_reduce of one element: no rank has the result before all have contributed.
// It does not use the bootstrap, because a rank that waits there would not drive the operations in flight
// that others wait for.
void Exchanges::barrier() {
    progress_.run(barrier_plan(), 1, &here_, &all_here_);
}

Execution& Exchanges::start_barrier() {
    return progress_.start(barrier_plan(), 1, &here_, &all_here_);
}

// Runs over the bootstrap, so that it takes no place in the order of collectives, and nothing fails with it.
// Meanwhile this rank makes progress on operations that others may wait for.
void Exchanges::barrier_monitored(std::chrono::milliseconds timeout) {
    const std::lock_guard lock(monitored_);
    const auto until = Progress::Clock::now() + timeout;
    connections_.bootstrap().come();
    for (;;) {
        if (const auto failure = progress_.failure()) throw Error(failure->status, failure->text);
        const bool is_idle = progress_.move_until(std::min(until, Progress::Clock::now() + 10ms));
        if (connections_.bootstrap().all_have_come(is_idle ? std::min(until, Progress::Clock::now() + 100ms)
                                                           : Progress::Clock::now()))
            return;
        if (Progress::Clock::now() >= until) break;
    }
    const auto absent = connections_.bootstrap().absent(verdict_on_absence_within);
    if (absent && absent->empty()) return;  // the last rank has come meanwhile
    throw Error(Status::timeout,
                fmt::format("not all ranks came to the monitored barrier within {} ms; absent: {}\n"
                            "  hint: see what these ranks are doing; the communicator is as it was, and "
                            "another call goes on with the same barrier",
                            timeout.count(),
                            absent ? fmt::format("{} ({} of {})", transport::all_ranks_text(*absent),
                                                 absent->size(), connections_.size())
                                   : "not known, as rank 0 does not answer"));
}

const std::shared_ptr<StartablePlan>& Exchanges::barrier_plan() {
    std::call_once(barrier_made_, [this] {
        barrier_ = rendezvous_like(*plans_.cached_plan(rendezvous_choice(), 1), "barrier");
    });
    return barrier_;
}

std::vector<std::string> Exchanges::exchange(const std::string& text, const std::string& purpose) {
    if (connections_.size() == 1) return {text};
    const std::lock_guard lock(exchanging_);
    progress_.finish_collectives();  // others may wait for this rank's part
    std::optional<std::uint64_t> number;
    if (!purpose.empty()) {
        const auto label = std::make_shared<record::Label>();
        label->purpose = purpose;
        label->ranks = connections_.size();
        number = progress_.begin_elsewhere(label);
    }
    const auto end = [&](Status status) {
        if (number) progress_.end_elsewhere(*number, status);
    };
    try {
        auto texts = connections_.bootstrap().all_gather(text, connections_.options().timeout, number);
        end(Status::success);
        return texts;
    } catch (const Error& error) {
        end(error.status());
        // After a failure, throws the communicator's failure, as every other call does.
        if (const auto failure = progress_.failure()) throw Error(failure->status, failure->text);
        if (error.status() != Status::timeout) throw;
        // Some ranks have called and others not, as in a collective that fails for this reason.
        const Error whole(error.status(), fmt::format("not all ranks make this call: {}", error.what()));
        progress_.cannot_start(whole);
        throw whole;
    }
}

std::vector<std::int64_t> Exchanges::greatest(const std::vector<std::int64_t>& own,
                                              const std::string& purpose) {
    std::vector<std::int64_t> all(own.size());
    const auto& plan = plans_.cached_plan(rendezvous_choice(DataType::int64, ReduceOp::max), 1);
    progress_.run(rendezvous_like(*plan, purpose), own.size(), own.data(), all.data());
    return all;
}

// A rank that has finished may still hold messages that others wait for, and they only move while it drives
// the fabric. So it stays for a while, until all ranks are here.
void Exchanges::say_goodbye() {
    try {
        if (progress_.failure()) return;
        std::int32_t here = 1, all = 0;
        // Not plan_for(): the others need not learn that this rank cannot make a plan.
        SizedPlans& plans = plans_.cached(rendezvous_choice());
        const auto& plan = plans.for_bytes(plans.bytes_of(1)).plan;
        progress_.wait(
            progress_.start(rendezvous_like(*plan, leaving_rendezvous), 1, &here, &all, 1, goodbye_limit));
    } catch (const Error& error) {
        // No call is left that could return the error, but wrong results must not go unnoticed.
        if (error.status() == Status::mismatch) log_line("hocket: {}", error.what());
    } catch (const std::exception&) {  // no memory for the rendezvous: leave at once
    }
}

}  // namespace hocket::engine
