#include "runtime/engine/plans.hpp"

#include <exception>

namespace hocket::engine {

std::unique_ptr<SizedPlans> Plans::lazy(const PlanChoice& choice) const {
    const bool is_by_rank = contract_of(choice.collective).is_by_rank();
    const std::uint64_t bytes_of_one =
        element_size(choice.type) * (is_by_rank ? static_cast<std::uint64_t>(ranks_) : 1);
    return std::make_unique<SizedPlans>(bytes_of_one,
                                        [this, choice](std::uint64_t bytes, const SizedPlans::Made& made) {
                                            SizedPlans::Sized sized = maker_.make(choice, bytes, made);
                                            if (!choice.is_for_rendezvous) made_(*sized.plan);
                                            return sized;
                                        });
}

// The other ranks make this plan, too, and will start it: they must be told if it cannot be made here.
const SizedPlans::Sized& Plans::made_for_all(SizedPlans& plans, std::uint64_t bytes) const {
    try {
        return plans.for_bytes(bytes);
    } catch (const std::exception& error) {
        progress_.cannot_start(error);
        throw;
    }
}

std::unique_ptr<SizedPlans> Plans::make(const PlanChoice& choice) const {
    auto plans = lazy(choice);
    made_for_all(*plans, usual_bytes);
    return plans;
}

SizedPlans& Plans::cached(const PlanChoice& choice) {
    const ExecutorKind executor = maker_.executor_of(choice);
    const bool is_usual = choice.root == 0 && !choice.schedule && executor == maker_.usual_executor() &&
                          !choice.is_uneven && !choice.op.defined() && !dsl::is_own(choice.collective);
    const std::size_t place =
        !is_usual
            ? 0
            : (static_cast<std::size_t>(choice.collective) * types + static_cast<std::size_t>(choice.type)) *
                      operators +
                  static_cast<std::size_t>(choice.op.built_in());
    auto& usual = usual_[place];
    if (is_usual)
        if (SizedPlans* known = usual.load(std::memory_order_acquire)) return *known;
    const Key key{choice.collective, choice.type, choice.op,       choice.root,
                  choice.schedule,   executor,    choice.is_uneven};
    const std::lock_guard lock(mutex_);
    std::unique_ptr<SizedPlans>& plans = plans_[key];
    if (!plans) plans = lazy(choice);
    if (is_usual) usual.store(plans.get(), std::memory_order_release);
    return *plans;
}

}  // namespace hocket::engine
