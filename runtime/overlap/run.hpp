// Runs plans while a program trains, and measures the times from which it plans. See docs/overlap.md.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/overlap/exchange.hpp"
#include "runtime/overlap/planner.hpp"

namespace hocket::overlap {

struct RunOptions {
    Method method = Method::optimum;
    Pulls pulls = Pulls::fastest;  // for weights that come back
    PlanOptions planning;          // the direction is the run's choice
    // Iterations before the plan. The first one of the run is not used, which leaves at least two.
    std::size_t measure = 16;
    std::optional<std::size_t> look_every = 100;  // iterations between checks; empty: never
    std::optional<Profile> profile;               // to plan from; must have the layers of this model
    std::function<Clock::time_point()> now = &Clock::now;
};

// The minimum of RunOptions::measure.
inline constexpr std::size_t least_to_measure = 3;

// Values that must be equal on all processes that plan together, each with its name, for example "methods".
using Description = std::vector<std::pair<std::string, std::string>>;
// Describes everything except the layers.
Description described(const RunOptions& options);

struct RunStats {
    std::uint64_t iterations = 0, plans = 0, batches = 0;
    std::uint64_t pull_batches = 0;  // 0: weights come back with gradients, or not at all
    double predicted_seconds = 0;    // of an iteration; 0: no plan was made yet
    // Of the iterations that ran this plan or, during a new measurement, the previous plan. Zeros: none yet.
    IterationSummary measured;
};

// Not thread-safe: use from one thread at a time. A call that is refused (Error(invalid_argument)) has no
// effect. Any other error is final: from then on the functions of an iteration throw it again.
class Run {
  public:
    // names: of the layers. Throws Error(invalid_argument) if the profile is not one of these layers, or if
    // this method has no plan; also the errors of Exchange.
    Run(std::unique_ptr<Exchange> exchange, std::vector<std::string> names, RunOptions options);

    // The steps of an iteration, in this order. A step returns false if it is not finished before `until`,
    // and must then be called again.
    bool forward(std::size_t layer, Clock::time_point until);
    bool begin_backward(Clock::time_point until);
    void backward(std::size_t layer);
    bool finish(Clock::time_point until);

    RunStats stats() const;
    const IterationPlan& plan() const { return plan_; }
    // Returns the profile of the last plan; null: nothing was measured yet.
    const Profile* profile() const { return profile_ ? &*profile_ : nullptr; }

  private:
    enum class Stage { forward, backward };

    std::size_t layers() const { return exchange_->bytes().size(); }
    void check_profile() const;
    PlanOptions planning() const;
    Profile bytes_alone() const;
    void check_method() const;
    void begin_record(Nanoseconds now);
    bool wait_for_batches(std::size_t last_layer, Clock::time_point until);
    bool wait_for_pulls(std::size_t last_layer, Clock::time_point until);
    void begin_pulls();
    void go_on_computing(std::size_t layer);
    void stop_computing();
    void close_record(Nanoseconds ended);
    void go_on();
    IterationPlan plan_to_measure() const;
    void put_together();
    void take_plan();
    bool have_times_changed();
    template <typename Action>
    auto unless_failed(const Action& action);

    const std::unique_ptr<Exchange> exchange_;
    const std::vector<std::string> names_;
    const RunOptions options_;

    // State of the iteration.
    Stage stage_ = Stage::forward;
    std::size_t next_layer_ = 0, next_batch_ = 0;  // the gradients below this layer are not ready yet
    bool is_ended_ = false;                        // the exchange's end() was called
    // Of this iteration or, until its batches have arrived, of the previous one.
    IterationTimes record_;
    std::vector<bool> has_come_, was_pulled_;  // by batch
    // The layer that has been computing after the end of the iteration; empty: it waits.
    std::optional<std::size_t> layer_;
    std::optional<Nanoseconds> computes_since_;
    bool is_record_open_ = false;
    std::optional<Nanoseconds> last_ended_;  // of the previous iteration

    // State of the plan.
    IterationPlan plan_;
    std::optional<Profile> profile_;
    double predicted_seconds_ = 0;
    IterationSummary summary_before_;  // of the previous plan, during a new measurement
    std::uint64_t iterations_ = 0, plans_ = 0;
    bool is_measuring_ = true;
    std::size_t turn_ = 0;          // iterations since measuring began, or since the last check
    std::size_t patience_ = 1;      // the next check comes after patience_ * look_every iterations
    std::uint64_t planned_at_ = 0;  // the number of iterations at that time
    std::optional<double> usual_;   // the time of an iteration at the first check, in nanoseconds
    std::deque<Nanoseconds> times_since_look_;  // of iterations
    std::deque<IterationTimes> recent_;         // since measuring began, or with this plan
    std::exception_ptr failure_;
};

}  // namespace hocket::overlap
