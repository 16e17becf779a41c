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

// The kernel of a program works on memory that all ranks of the host have opened once, never on another
// rank's buffers: it copies its rank's input to the input area, or multiplies it, before all else; and its
// rank's output from the output area, if stages_output(), after all ranks are done with the stripe. So it
// depends on no other rank's buffers, and no rank needs to know where they are.
//
// Behind the program's areas are the caller's buffers.
inline dsl::AreaId callers_input(const dsl::RankProgram& program) {
    return static_cast<dsl::AreaId>(program.areas());
}
inline dsl::AreaId callers_output(const dsl::RankProgram& program) {
    return callers_input(program) + 1;
}
inline std::size_t areas_of_kernel(const dsl::RankProgram& program) {
    return program.areas() + 2;
}
// Returns true if local peers read or write the output area. Otherwise it is the caller's output.
bool stages_output(const dsl::RankProgram& program);

// Returns true if a small start of the program can go by packets: it needs nothing of local peers but their
// inputs, from each of them, and all inputs are equally long. Then a rank that has the packets of all others
// has the result, and needs no signal; and no rank is more than a start ahead of another. All ranks of the
// host must be able to.
bool goes_by_packets(const dsl::RankProgram& program);

// Returns the shape for a program that why_no_device_kernel() has nothing against. defined: if not empty, the
// formula of elements 0 and 1 that combines; then `op` is ignored. A step of the ranks' meeting at the end
// has the number of the program's operations as its operation.
//
// All ranks must have the same boundaries, as programs of one host have. Throws hocket::Error (internal) for
// a program that breaks engine/plan/program_rules.hpp.
DeviceShape device_shape_of(const dsl::RankProgram& program, DataType type, ReduceOp op,
                            const dsl::Formula& defined);

// Returns the most stripes that a start may have for this rank: any number, or 1 if elements move between
// atoms of different lengths. It differs between ranks, and all must have the same number of stripes: at most
// the least that this returns for a rank of the host.
std::uint64_t most_stripes_of(const dsl::RankProgram& program);

}  // namespace hocket::jit
