#include "runtime/jit/kernel_shape.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::jit {

KernelShape KernelShape::of(DataType type, ReduceOp op, std::size_t operands, std::size_t destinations) {
    if (std::max(operands, destinations) > most_unrolled) return {type, op, 0, 0};
    return {type, operands == 1 ? ReduceOp::sum : op, operands, destinations};
}

std::string name_of(const KernelShape& shape) {
    std::string name = shape.operands == 0   ? "combine_any"
                       : shape.operands == 1 ? "copy"
                                             : fmt::format("combine{}", shape.operands);
    if (shape.destinations > 1) name += fmt::format("_to_{}", shape.destinations);
    name += fmt::format("_{}", name_of(shape.type));
    if (shape.operands != 1) name += fmt::format("_{}", name_of(shape.op));
    return name + (shape.streamed ? "_streamed" : "");
}

}  // namespace hocket::jit
