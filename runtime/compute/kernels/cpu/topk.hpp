// MSTopK: selects the k elements of largest magnitude, with or without error feedback (Shi et al., "Towards
// scalable distributed training of deep learning on public cloud clusters", MLSys 2021, section 3.1).
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/selection.hpp"

namespace hocket::kernels {

struct Selected {
    std::size_t count = 0;
    bool non_finite = false;  // there were infinities or NaNs among the elements
};

// Selects exactly min(k, count) of the elements, and writes them to `values` and their indices to `indices`,
// in ascending order of the indices. Values keep their bits. NaNs have the largest magnitude, then
// infinities. An exact selection has all elements whose magnitude is larger than the k-th largest, and of
// those that equal it as many as needed: a run of neighbours among them, chosen by the draw. Thread-safe.
// Needs memory for about 3 k elements per thread, and throws std::bad_alloc without it.
Selected topk(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
              const TopkOptions& options, std::byte* values, std::uint32_t* indices);

// Error feedback (Stich et al., "Sparsified SGD with memory", 2018): values that are not sent are kept for
// the next step.
struct Feedback {
    float* residual;             // count elements
    float decay = 1, scale = 1;  // the selection is from decay * residual + scale * element, as float32
    DataType sent_as = DataType::float32;
    bool skip_non_finite = true;
};

// Like topk(), but selects from acc = decay * residual + scale * elements. `values` receives the selected
// ones as `sent_as`. Where nothing was selected the residual becomes acc, otherwise the rounding error: value
// + residual is acc, bit for bit, also if a value is too large for `sent_as`. Infinities and NaNs leave a
// residual of 0, selected or not.
// skip_non_finite: if acc has an infinity or NaN anywhere, nothing is selected, the residual is unchanged,
// and `non_finite` is set. This costs one more pass over elements and residual.
Selected topk_with_feedback(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
                            const TopkOptions& options, const Feedback& feedback, std::byte* values,
                            std::uint32_t* indices);

}  // namespace hocket::kernels
