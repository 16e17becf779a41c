#include "runtime/compute/jit/precompiled/usual_shapes.hpp"

#include <set>

namespace hocket::jit {
namespace {

using enum DataType;
constexpr DataType summed[] = {float32, bfloat16, float16, float64, int32, int64, uint8};
constexpr DataType averaged[] = {float32, bfloat16, float16, float64};
// The types of losses, of flags, and of the values that Hocket's own rendezvous agrees on.
constexpr DataType chosen_from[] = {float32, int32, int64};

}  // namespace

std::vector<KernelShape> usual_shapes() {
    std::set<KernelShape> shapes;
    const auto add = [&](const KernelShape& shape) {
        // A plain copy of one operand is libc's memcpy (jit/kernels.cpp).
        if (shape.operands > 1 || shape.destinations > 1) shapes.insert(shape);
        if (machine_streams) shapes.insert(shape.streaming());
    };
    for (std::size_t destinations = 1; destinations <= most_usual_ranks; ++destinations) {
        for (std::size_t operands = 2; operands <= most_usual_ranks; ++operands) {
            for (const DataType type : summed)
                add(KernelShape::of(type, ReduceOp::sum, operands, destinations));
            for (const DataType type : averaged)
                add(KernelShape::of(type, ReduceOp::sum, operands, destinations,
                                    KernelShape::divisor_by_call));
            // If all hosts have the same number of ranks, a result goes to one rank, to one and its local
            // peer, or to all.
            if (destinations > 2 && destinations != operands) continue;
            for (const DataType type : chosen_from)
                for (const ReduceOp op : {ReduceOp::max, ReduceOp::min})
                    add(KernelShape::of(type, op, operands, destinations));
        }
        for (const DataType type : all_types)  // by size
            add(KernelShape::of(type, ReduceOp::sum, 1, destinations));
    }
    return {shapes.begin(), shapes.end()};
}

}  // namespace hocket::jit
