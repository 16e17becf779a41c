// The copy of a start's input that operations read in place of the caller's buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/compute/kernels/cpu/hand_over.hpp"
#include "runtime/engine/plan/plan.hpp"

namespace hocket::engine {

// The reader of a copy decides how it is written: cache lines that go to another core are not fetched first.
enum class ReadBy : std::uint8_t { self, local_peers };

// Copies whole elements of the input. If the plan multiplies, it multiplies them by the start's factor, which
// is applied nowhere else. The two ranges must not overlap. path: to local peers.
void copy_input(const Plan& plan, double factor, std::byte* to, const std::byte* from, std::uint64_t bytes,
                ReadBy reader, kernels::Path path = kernels::Path::cache);

}  // namespace hocket::engine
