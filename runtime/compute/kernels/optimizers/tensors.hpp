// The tensors of optimizers that scale each tensor's rate by its norms. A step has three parts, so that ranks
// can divide the first and the last by chunks (chunk_order.hpp):
//
//   1. the sums of squares of each chunk: of the weights, and of the direction in which they would go.
//      The tensors are not written.
//   2. each tensor's trust ratio, from the sums of all of its chunks.
//   3. the update of the weights and the states.
//
// The processor's kernels (cpu/optimizers/step.hpp) and the device's (cuda/optimizers.cuh) do this for any
// optimizer; lars.hpp and lamb.hpp define the calculation for an element.
#pragma once

#include <cstddef>
#include <limits>

#include "runtime/compute/kernels/chunk_order.hpp"
#include "runtime/compute/kernels/optimizers/rounded.hpp"

namespace hocket::kernels {

// One tensor of a model. The gradient may have another type; everything else is float32. The optimizer
// defines its states.
template <unsigned n_states>
struct OptimizedTensor {
    float* weights;
    const std::byte* gradient;
    float* states[n_states];
    std::size_t count;  // elements of each
};

// The sums of squares of one chunk.
struct NormSums {
    float weights, direction;
};

// Returns the ratio for a tensor with these norms: 1 if one of them is 0, or if the optimizer is not
// adaptive; NaN if a norm, or the rate that the ratio gives, is not finite. Then no tensor takes the step.
template <typename Step>
HOCKET_BOTH_SIDES float trust_ratio(const Step& step, double weights, double direction) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr float largest = std::numeric_limits<float>::max();
    if (!(weights < infinity) || !(direction < infinity)) return std::numeric_limits<float>::quiet_NaN();
    if (!step.adaptive || weights == 0 || direction == 0) return 1;
    const auto ratio = static_cast<float>(step.ratio(weights, direction));
    const bool is_finite = rounded::product(step.rate, ratio) <= largest;
    return is_finite ? ratio : std::numeric_limits<float>::quiet_NaN();
}
HOCKET_BOTH_SIDES inline bool takes_step(float ratio) {
    return ratio == ratio;
}

}  // namespace hocket::kernels
