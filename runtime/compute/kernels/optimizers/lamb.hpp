// LAMB: Adam, with a separate rate for each tensor (You et al., "Large batch optimization for deep learning:
// training BERT in 76 minutes", ICLR 2020, Algorithm 2, with the identity as its function phi). For weights
// w, gradient g, first moment m and second moment v of a tensor, and the number t of the step, counted from
// 1:
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * w
//   w = w - rate * (|w| / |u|) * u
#pragma once

#include <cstdint>

#include "runtime/compute/kernels/optimizers/tensors.hpp"

namespace hocket::kernels {

struct LambOptions {
    double rate, beta1, beta2, epsilon, decay;
    std::uint64_t step;  // counted from 1
    bool adaptive;       // false: all ratios are 1
};

// Returns base^exponent by products alone, which have the same bits everywhere; std::pow does not promise
// that.
inline double power(double base, std::uint64_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 == 1) result *= base;
    return result;
}

// One step, and its effect on a single element. All calculations are float32, and each result is rounded. The
// constants are calculated as float64 and rounded once; the moments are multiplied by 1 / (1 - beta^t).
struct LambStep {
    static constexpr unsigned states = 2;  // the first and the second moment

    float rate, decay, epsilon;
    struct Moment {
        float keep, take, correct;

        Moment(double beta, std::uint64_t step)
            : keep(static_cast<float>(beta)),
              take(static_cast<float>(1 - beta)),
              correct(static_cast<float>(1 / (1 - power(beta, step)))) {}
    } first, second;
    bool adaptive;

    explicit LambStep(const LambOptions& options)
        : rate(static_cast<float>(options.rate)),
          decay(static_cast<float>(options.decay)),
          epsilon(static_cast<float>(options.epsilon)),
          first(options.beta1, options.step),
          second(options.beta2, options.step),
          adaptive(options.adaptive) {}

    // Returns u, and updates the moments.
    HOCKET_BOTH_SIDES float direction(float weight, float gradient, float (&moments)[states]) const {
        using namespace rounded;
        moments[0] = sum(product(first.keep, moments[0]), product(first.take, gradient));
        moments[1] = sum(product(second.keep, moments[1]), product(product(second.take, gradient), gradient));
        const float deviation = root(product(moments[1], second.correct));
        const float adam = quotient(product(moments[0], first.correct), sum(deviation, epsilon));
        // An infinite deviation would make this 0, and the moment would be lost. NaN instead of 0 makes the
        // norm show it. The added difference is 0 otherwise, and needs no branch.
        const float visible = sum(adam, difference(deviation, deviation));
        return sum(visible, product(decay, weight));
    }

    HOCKET_BOTH_SIDES double ratio(double weights, double direction) const {
        return rounded::quotient(weights, direction);
    }

    // own_rate: the rate times the tensor's ratio.
    HOCKET_BOTH_SIDES void apply(float own_rate, float& weight, float gradient,
                                 float (&moments)[states]) const {
        using namespace rounded;
        weight = difference(weight, product(own_rate, direction(weight, gradient, moments)));
    }
};

using LambTensor = OptimizedTensor<LambStep::states>;

}  // namespace hocket::kernels
