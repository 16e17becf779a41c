// MSTopK: the k elements of largest magnitude, by themselves or with error feedback (Shi et al., "Towards
// scalable distributed training of deep learning on public cloud clusters", MLSys 2021, section 3.1).
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/selection.hpp"

namespace hocket::kernels {

struct Selected {
    std::size_t count = 0;
    bool non_finite = false;  // there were infinities or NaNs to select from
};

// Selects exactly min(k, count) of the elements, and writes them to `values`, and their indices, in ascending
// order of these, to `indices`. Values keep their bits. NaNs have the largest magnitude, then infinities
// come. Exact: all elements whose magnitude is larger than the k-th largest are selected, and of those that
// equal it as many as are needed: a run of neighbours among them that the draw decides. Thread-safe. Needs
// memory for about 3 k elements for each thread, and throws std::bad_alloc without it.
Selected topk(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
              const TopkOptions& options, std::byte* values, std::uint32_t* indices);

// Error feedback (Stich et al., "Sparsified SGD with memory", 2018): what is not sent is kept for the next
// time.
struct Feedback {
    float* residual;             // count elements
    float decay = 1, scale = 1;  // what is selected from: decay * residual + scale * element, as float32
    DataType sent_as = DataType::float32;
    bool skip_non_finite = true;
};

// The same with acc = decay * residual + scale * elements to select from. `values` get those selected as
// `sent_as`; the residual becomes acc where nothing was selected, and what rounding left where something was:
// value + residual is acc, bit for bit, also where a value is too large for `sent_as`. Infinities
// and NaNs leave a residual of 0, selected or not.
// skip_non_finite: if an infinity or NaN is anywhere in acc, nothing is selected, the residual is left as it
// was, and `non_finite` is set. This takes a pass more over elements and residual.
Selected topk_with_feedback(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
                            const TopkOptions& options, const Feedback& feedback, std::byte* values,
                            std::uint32_t* indices);

}  // namespace hocket::kernels
