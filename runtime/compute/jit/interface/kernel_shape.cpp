#include "runtime/compute/jit/interface/kernel_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace hocket::jit {

KernelShape KernelShape::of(DataType type, ReduceOp op, std::size_t operands, std::size_t destinations,
                            std::uint32_t divisor, std::vector<dsl::Formula::Item> epilogue,
                            std::vector<dsl::Formula::Item> defined) {
    const bool is_copy = operands == 1;
    if (is_copy) {
        const auto is_as_large = [&](DataType other) { return element_size(other) == element_size(type); };
        type = *std::ranges::find_if(all_types, is_as_large);
        op = all_ops[0];
        divisor = 1;
        epilogue.clear();
        defined.clear();
    }
    if (!defined.empty()) op = all_ops[0];
    op = *std::ranges::find(all_ops, row_of(op).combination,
                            [](ReduceOp other) { return row_of(other).combination; });
    if (std::max(operands, destinations) > most_unrolled)
        return {type, op, is_copy ? 1u : 0u, 0, divisor, false, std::move(epilogue), std::move(defined)};
    return {type, op, operands, destinations, divisor, false, std::move(epilogue), std::move(defined)};
}

KernelShape KernelShape::product_of(DataType type) {
    KernelShape shape;
    shape.type = type;
    shape.multiplies = true;
    return shape;
}

namespace {

std::string name_of(const std::vector<dsl::Formula::Item>& items) {
    std::string name;
    for (const dsl::Formula::Item& item : items)
        name += item.op == dsl::Formula::Op::number
                    ? fmt::format("_{:x}", std::bit_cast<std::uint64_t>(item.number))
                : item.op == dsl::Formula::Op::element ? fmt::format("_e{}", item.index)
                                                       : fmt::format("_op{}", static_cast<int>(item.op));
    return name;
}

}  // namespace

std::string name_of(const KernelShape& shape) {
    std::string name = shape.is_copy()       ? "copy"
                       : shape.multiplies    ? "multiply"
                       : shape.operands == 0 ? "combine_any"
                                             : fmt::format("combine{}", shape.operands);
    if (shape.is_copy() && !shape.is_unrolled()) name += "_to_any";
    if (shape.destinations > 1) name += fmt::format("_to_{}", shape.destinations);
    name += shape.is_copy() ? fmt::format("_int{}", 8 * element_size(shape.type))
                            : fmt::format("_{}", name_of(shape.type));
    if (!shape.is_copy() && !shape.multiplies)
        name +=
            shape.defined.empty() ? fmt::format("_{}", name_of(shape.op)) : "_by" + name_of(shape.defined);
    if (shape.divisor == KernelShape::divisor_by_call) name += "_by_any";
    if (shape.divisor > 1) name += fmt::format("_by_{}", shape.divisor);
    if (!shape.epilogue.empty()) name += "_then" + name_of(shape.epilogue);
    return name + (shape.streamed ? "_streamed" : "");
}

}  // namespace hocket::jit
