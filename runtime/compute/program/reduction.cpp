#include "runtime/compute/program/reduction.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/compute/program/extra_layout.hpp"
#include "runtime/compute/program/formula_loop.hpp"

namespace hocket::compute {
namespace {

template <DataType type>
void combine_as(const dsl::Formula& formula, std::span<std::byte* const> destinations,
                std::span<const std::byte* const> operands, std::size_t count) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    constexpr std::size_t strip = 512;
    Worked result[strip];
    auto* const so_far = reinterpret_cast<std::byte*>(result);
    for (std::size_t first = 0; first < count; first += strip) {
        const std::size_t n = std::min(strip, count - first);
        const Stored* const source = reinterpret_cast<const Stored*>(operands[0]) + first;
        for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<Worked>(source[i]);
        for (std::size_t k = 1; k < operands.size(); ++k) {
            const FormulaOperand pair[] = {{so_far, working_type(type)},
                                           {operands[k] + first * sizeof(Stored), type}};
            run_formula(formula, {pair, {}, {}}, n, working_type(type), so_far);
        }
        for (std::byte* const destination : destinations) {
            Stored* const to = reinterpret_cast<Stored*>(destination) + first;
            for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<Stored>(result[i]);
        }
    }
}

}  // namespace

std::uint64_t Reduction::identity() const {
    if (!defined_) return static_cast<std::uint64_t>(op_);
    std::vector<std::uint64_t> numbers;
    for (const dsl::Formula::Item& item : defined_->formula.items)
        numbers.insert(numbers.end(), {static_cast<std::uint64_t>(item.op), item.index,
                                       std::bit_cast<std::uint64_t>(item.number)});
    return XXH3_64bits(numbers.data(), numbers.size() * sizeof numbers[0]);
}

void Reduction::combine(DataType type, std::span<std::byte* const> destinations,
                        std::span<const std::byte* const> operands, std::size_t count,
                        std::uint32_t divisor) const {
    if (!defined_) return kernels::combine(type, op_, destinations, operands, count, divisor);
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        if constexpr (row_of(t).kind == kind::floating)
            combine_as<t>(defined_->formula, destinations, operands, count);
        else
            no_such_row(t);  // plans refuse it earlier
    });
}

std::partial_ordering operator<=>(const Reduction& a, const Reduction& b) {
    if (!a.defined_ || !b.defined_)
        return std::tuple(a.defined_ != nullptr, a.op_) <=> std::tuple(b.defined_ != nullptr, b.op_);
    return *a.defined_ <=> *b.defined_;
}

}  // namespace hocket::compute
