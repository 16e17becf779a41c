// Runs plans while a program trains, and measures what it plans from. docs/overlap.md has how.
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
    Pulls pulls = Pulls::fastest;   // of weights that come back
    std::uint64_t limit_bytes = 0;  // as in PlanOptions
    std::uint64_t bucket_bytes = PlanOptions{}.bucket_bytes;
    // Iterations before the plan; the first of the run is not looked at, which leaves two of them at least.
    std::size_t measure = 16;
    std::optional<std::size_t> look_every = 100;  // iterations; nothing: never
    std::optional<Profile> profile;               // to plan from, with the layers of this model
    std::function<Clock::time_point()> now = &Clock::now;
};

// Of RunOptions::measure.
inline constexpr std::size_t least_to_measure = 3;

// What must be alike where several plan together: each with its name, as "methods".
using Description = std::vector<std::pair<std::string, std::string>>;
// Besides the layers.
Description described(const RunOptions& options);

struct RunStats {
    std::uint64_t iterations = 0, plans = 0, batches = 0;
    std::uint64_t pull_batches = 0;  // 0: weights come back with gradients, or there are none
    double predicted_seconds = 0;    // of an iteration; 0: nothing was planned yet
    // Of the iterations that ran this plan; while it measures again, of the plan before. zeros: none yet.
    IterationSummary measured;
};

// One thread at a time. If a call cannot be taken (Error(invalid_argument)) nothing has happened. Whatever
// else goes wrong is final: the functions of an iteration throw it again from then on.
class Run {
  public:
    // names: of the layers. Throws Error(invalid_argument) if the profile is not one of these layers, or if
    // there is no plan of this method; what Exchange throws.
    Run(std::unique_ptr<Exchange> exchange, std::vector<std::string> names, RunOptions options);

    // Of an iteration, in this order. false: not before `until`; then they are called again.
    bool forward(std::size_t layer, Clock::time_point until);
    bool begin_backward(Clock::time_point until);
    void backward(std::size_t layer);
    bool finish(Clock::time_point until);

    RunStats stats() const;
    const IterationPlan& plan() const { return plan_; }
    // Of the last plan; null: nothing was measured yet.
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

    // The iteration.
    Stage stage_ = Stage::forward;
    std::size_t next_layer_ = 0, next_batch_ = 0;  // the gradients of those below are not there yet
    bool is_ended_ = false;                        // the exchange was told so
    // Of the iteration, or of the one before until its batches have come.
    IterationTimes record_;
    std::vector<bool> has_come_, was_pulled_;  // by batch
    // What has computed since when, after the iteration has ended; nothing: it waits.
    std::optional<std::size_t> layer_;
    std::optional<Nanoseconds> computes_since_;
    bool is_record_open_ = false;
    std::optional<Nanoseconds> last_ended_;  // of the iteration before

    // The plan.
    IterationPlan plan_;
    std::optional<Profile> profile_;
    double predicted_seconds_ = 0;
    IterationSummary summary_before_;  // of the plan before, while it measures again
    std::uint64_t iterations_ = 0, plans_ = 0;
    bool is_measuring_ = true;
    std::size_t turn_ = 0;                      // iterations since measuring began, or since the last look
    std::size_t patience_ = 1;                  // a look comes after so many times look_every
    std::uint64_t planned_at_ = 0;              // after so many iterations
    std::optional<double> usual_;               // of an iteration, at the first look; nanoseconds
    std::deque<Nanoseconds> times_since_look_;  // of iterations
    std::deque<IterationTimes> recent_;         // since measuring began, or of this plan
    std::exception_ptr failure_;
};

}  // namespace hocket::overlap
