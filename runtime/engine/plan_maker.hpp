// Makes a communicator's plans: chooses the schedule for each collective and size, and says why.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/planning/compile.hpp"
#include "runtime/engine/job/connections.hpp"
#include "runtime/engine/job/planning.hpp"
#include "runtime/engine/job/rank_log.hpp"
#include "runtime/engine/job/tuning.hpp"
#include "runtime/engine/sized_plans.hpp"

namespace hocket::engine {

struct PlanChoice {
    dsl::Collective collective = dsl::Collective::all_reduce;
    DataType type = DataType::float32;
    compute::Reduction op = ReduceOp::sum;
    int root = 0;                                        // for collectives with a root
    std::optional<std::string> schedule = std::nullopt;  // none: the communicator's
    ExecutorKind executor = ExecutorKind::automatic;     // automatic: the communicator's
    bool is_uneven = false;                              // for pieces of different counts
    std::vector<std::uint64_t> tensors = {};  // as in compute::ComputeOptions; not for a cached plan
    bool is_for_rendezvous = false;           // a barrier: the schedule is not the program's choice
};

// Thread-safe.
class PlanMaker {
  public:
    PlanMaker(const Connections& connections, const RankLog& log);

    // bytes: of x. Sizes for which the schedule is identical share a plan. Throws hocket::Error.
    SizedPlans::Sized make(const PlanChoice& choice, std::uint64_t bytes, const SizedPlans::Made& made) const;
    ExecutorKind executor_of(const PlanChoice& choice) const {
        return choice.executor == ExecutorKind::automatic ? executor_ : choice.executor;
    }
    ExecutorKind usual_executor() const { return executor_; }  // the communicator's

    // The operator that schedule files define under this name, or in this file (dsl/elaboration/find.hpp).
    std::shared_ptr<const dsl::Operator> find_operator(const std::string& text) const;

    // The collective with this name (dsl/elaboration/find.hpp): one that schedule files define, or one of the
    // table. schedule: the text of the schedule that is to run; may be empty.
    dsl::Collective find_collective(const std::string& text, const std::string& schedule) const;

    // False if no measurement is known for jobs of this shape.
    bool is_tuned() const { return !tuning_.empty(); }

  private:
    std::string own_schedule(dsl::Collective collective) const;
    void warn_of(const std::vector<std::string>& passed_over, const Planning::Turn& turn) const;
    std::unique_ptr<dsl::CheckedSchedule> check(dsl::PlanRequest request) const;
    std::unique_ptr<dsl::CheckedSchedule> tuned_schedule(dsl::PlanRequest request,
                                                         std::vector<std::string>& why) const;
    void log_choice(const PlanChoice& choice, const SizedPlans::Sized& sized, std::uint64_t bytes,
                    const std::string& named_by, bool is_there_already) const;

    const Connections& connections_;
    const Options& options_;
    const RankLog& log_;
    const ExecutorKind executor_;
    Tuning tuning_;  // measured in jobs of this shape; the same on all ranks
    mutable std::atomic<bool> warned_ = false;
    // The collectives for which options_.schedule exists. Guarded by a turn of options_.planning.
    mutable std::optional<std::set<dsl::Collective>> own_collectives_;
};

}  // namespace hocket::engine
