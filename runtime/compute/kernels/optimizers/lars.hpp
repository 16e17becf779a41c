// LARS: momentum, with a separate rate for each tensor (You, Gitman, Ginsburg, "Large batch training of
// convolutional networks", 2017, Algorithm 1; equation 11 of Shi et al., MLSys 2021). For weights w, gradient
// g and momentum v of a tensor:
//
//   ratio = trust * |w| / (|g| + decay * |w| + epsilon)
//   v = momentum * v + rate * ratio * (g + decay * w)
//   w = w - v
#pragma once

#include "runtime/compute/kernels/optimizers/tensors.hpp"

namespace hocket::kernels {

struct LarsOptions {
    double rate, momentum, decay, trust, epsilon;
    bool adaptive;  // false: all ratios are 1
};

// One step, and its effect on a single element. Products and sums are float32, each rounded; a ratio is
// calculated as float64 and rounded once.
struct LarsStep {
    static constexpr unsigned states = 1;  // the momentum

    float rate, momentum, decay;
    double trust, epsilon;
    bool adaptive;

    explicit LarsStep(const LarsOptions& options)
        : rate(static_cast<float>(options.rate)),
          momentum(static_cast<float>(options.momentum)),
          decay(static_cast<float>(options.decay)),
          trust(options.trust),
          epsilon(options.epsilon),
          adaptive(options.adaptive) {}

    // Returns the vector whose norm the ratio compares with the weights' norm.
    HOCKET_BOTH_SIDES float direction(float, float gradient, float (&)[states]) const { return gradient; }

    HOCKET_BOTH_SIDES double ratio(double weights, double gradient) const {
        using namespace rounded;
        const double below = sum(sum(gradient, product(double{decay}, weights)), epsilon);
        return quotient(product(trust, weights), below);
    }

    // own_rate: the rate times the tensor's ratio.
    HOCKET_BOTH_SIDES void apply(float own_rate, float& weight, float gradient,
                                 float (&state)[states]) const {
        using namespace rounded;
        const float decayed = sum(gradient, product(decay, weight));
        state[0] = sum(product(momentum, state[0]), product(own_rate, decayed));
        weight = difference(weight, state[0]);
    }
};

using LarsTensor = OptimizedTensor<LarsStep::states>;

}  // namespace hocket::kernels
