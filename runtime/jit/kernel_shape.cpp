#include "runtime/jit/kernel_shape.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::jit {

KernelShape KernelShape::of(DataType type, ReduceOp op, std::size_t operands, std::size_t destinations,
                            std::uint32_t divisor) {
    const bool is_copy = operands == 1;
    if (is_copy) {
        const auto is_as_large = [&](DataType other) { return element_size(other) == element_size(type); };
        type = *std::ranges::find_if(all_types, is_as_large);
        op = all_ops[0];
        divisor = 1;
    }
    if (std::max(operands, destinations) > most_unrolled) return {type, op, is_copy ? 1u : 0u, 0, divisor};
    return {type, op, operands, destinations, divisor};
}

std::string name_of(const KernelShape& shape) {
    std::string name = shape.is_copy()       ? "copy"
                       : shape.operands == 0 ? "combine_any"
                                             : fmt::format("combine{}", shape.operands);
    if (shape.is_copy() && !shape.is_unrolled()) name += "_to_any";
    if (shape.destinations > 1) name += fmt::format("_to_{}", shape.destinations);
    name += shape.is_copy() ? fmt::format("_int{}", 8 * element_size(shape.type))
                            : fmt::format("_{}_{}", name_of(shape.type), name_of(shape.op));
    if (shape.divisor != 1) name += fmt::format("_by_{}", shape.divisor);
    return name + (shape.streamed ? "_streamed" : "");
}

}  // namespace hocket::jit
