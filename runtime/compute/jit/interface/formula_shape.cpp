#include "runtime/compute/jit/interface/formula_shape.hpp"

#include <bit>

namespace hocket::jit {

bool FormulaShape::operator<(const FormulaShape& other) const {
    const auto key = [](const FormulaShape& shape) {
        std::vector<std::uint64_t> numbers{static_cast<std::uint64_t>(shape.target), shape.elements.size()};
        for (const DataType type : shape.elements) numbers.push_back(static_cast<std::uint64_t>(type));
        for (const dsl::Formula::Item& item : shape.items)
            numbers.insert(numbers.end(), {static_cast<std::uint64_t>(item.op), item.index,
                                           std::bit_cast<std::uint64_t>(item.number)});
        return numbers;
    };
    return key(*this) < key(other);
}

}  // namespace hocket::jit
