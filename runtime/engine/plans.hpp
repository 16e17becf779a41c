// The plans that a communicator has made.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "runtime/engine/plan_maker.hpp"
#include "runtime/engine/progress/progress.hpp"
#include "runtime/engine/sized_plans.hpp"

namespace hocket::engine {

// Thread-safe; throws hocket::Error.
class Plans {
  public:
    // progress: learns of a plan that cannot be made. made: called for each plan that has been made.
    Plans(const Connections& connections, const RankLog& log, Progress& progress,
          std::function<void(const Plan&)> made)
        : maker_(connections, log), ranks_(connections.size()), progress_(progress), made_(std::move(made)) {}

    const PlanMaker& maker() const { return maker_; }

    // Returns the plans of a choice. Makes the one for 1 MiB now, so that a choice that cannot run fails
    // here; others are made when first needed.
    std::unique_ptr<SizedPlans> make(const PlanChoice& choice) const;

    SizedPlans& cached(const PlanChoice& choice);
    const std::shared_ptr<StartablePlan>& cached_plan(const PlanChoice& choice, std::uint64_t count) {
        return plan_for(cached(choice), count).plan;
    }
    // For an uneven choice. With counts for each pair, ranks have different counts but must all use the same
    // plan: that for the usual size.
    const std::shared_ptr<StartablePlan>& cached_plan(const PlanChoice& choice, const Layout& pieces) {
        const std::uint64_t element = element_size(choice.type);
        const std::uint64_t bytes =
            pieces.is_by_pair() ? usual_bytes : std::min(pieces.count(), UINT64_MAX / element) * element;
        return made_for_all(cached(choice), bytes).plan;
    }

    // Returns the plan for `count`, as the collective's function takes it. It is about to be started: if it
    // cannot be made, the other ranks are told.
    const SizedPlans::Sized& plan_for(SizedPlans& plans, std::uint64_t count) const {
        const std::uint64_t bytes = plans.bytes_of(count);
        const SizedPlans::Sized* known = plans.find(bytes);
        return known ? *known : made_for_all(plans, bytes);
    }

  private:
    static constexpr std::uint64_t usual_bytes = 1 << 20;

    std::unique_ptr<SizedPlans> lazy(const PlanChoice& choice) const;
    const SizedPlans::Sized& made_for_all(SizedPlans& plans, std::uint64_t bytes) const;

    using Key = std::tuple<dsl::Collective, DataType, compute::Reduction, int, std::optional<std::string>,
                           ExecutorKind, bool>;
    static constexpr std::size_t collectives = std::size(dsl::all_collectives), types = std::size(all_types),
                                 operators = std::size(all_ops);

    PlanMaker maker_;
    const int ranks_;
    Progress& progress_;
    const std::function<void(const Plan&)> made_;
    std::mutex mutex_;
    std::map<Key, std::unique_ptr<SizedPlans>> plans_;
    // The communicator's own choices with root 0, which are found without a lock.
    std::array<std::atomic<SizedPlans*>, collectives * types * operators> usual_{};
};

}  // namespace hocket::engine
