// A rank's program as the shape of one kernel for a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/jit/interface/device_plan.hpp"

namespace hocket::jit {

// Returns why no kernel can run the program by itself; nullopt if one can.
std::optional<std::string> why_no_device_kernel(const dsl::RankProgram& program);

// Returns true if the kernel first copies the rank's input, or multiplies it, and then reads the copy: local
// peers are shown a copy, or the input is multiplied, or in place it would be overwritten (`must_copy`).
bool copies_input(const dsl::RankProgram& program, ReduceOp op, const dsl::Formula& defined, bool must_copy);

// Returns the shape for a program that why_no_device_kernel() has nothing against. defined: if not empty, the
// formula of elements 0 and 1 that combines; then `op` is ignored. copies: copies_input(). The input that is
// copied is the last area.
//
// All ranks must have the same boundaries, as programs of one host have. Throws hocket::Error (internal) for
// a program that breaks engine/plan/program_rules.hpp.
DeviceShape device_shape_of(const dsl::RankProgram& program, DataType type, ReduceOp op,
                            const dsl::Formula& defined, bool copies);

// Returns the most stripes that a start may have for this rank: any number, or 1 if elements move between
// atoms of different lengths. It differs between ranks, and all must have the same number of stripes: at most
// the least that this returns for a rank of the host.
std::uint64_t most_stripes_of(const dsl::RankProgram& program);

}  // namespace hocket::jit
