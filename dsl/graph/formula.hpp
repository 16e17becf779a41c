// What a computation makes of each element: a small expression, in postfix order.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::dsl {

struct Formula {
    enum class Op : std::uint8_t {
        number,     // item.number
        parameter,  // the value given at this start for parameter item.index
        element,    // the element of operand item.index at the same place as the one that is calculated
        scalar,     // the sum item.index, of the tensor that the element is in
        negate,
        logical_not,
        absolute,
        square_root,
        to_float16,  // rounded to a float16, and a number like any other again
        to_bfloat16,
        add,
        subtract,
        multiply,
        divide,
        minimum,  // NaN if one of the two is
        maximum,
        equal,  // these are 1 or 0
        not_equal,
        less,
        less_equal,
        greater,
        greater_equal,
        logical_and,  // any number but 0 is true
        logical_or,
        select,  // the second where the first is not 0, else the third
    };
    struct Item {
        Op op;
        std::uint32_t index = 0;
        double number = 0;
        friend auto operator<=>(const Item&, const Item&) = default;
    };
    std::vector<Item> items;

    void push(Op op) { items.push_back({op}); }
    // How many values its evaluation holds at a time.
    std::size_t depth() const;
    // The operands that its result is the sum of, with whatever else is added: those of "e + x - 0.5 * w" are
    // e and x. One that occurs more than once is none of them: "e + x - x" has nothing of x.
    std::vector<std::uint32_t> summands() const;
};

// The values that it takes from the stack.
constexpr std::size_t operands_of(Formula::Op op) {
    using Op = Formula::Op;
    if (op <= Op::scalar) return 0;
    if (op <= Op::to_bfloat16) return 1;
    return op == Op::select ? 3 : 2;
}

// Its result is 1 or 0, and has nothing of its operands' values.
constexpr bool is_truth(Formula::Op op) {
    using Op = Formula::Op;
    return op == Op::logical_not || (op >= Op::equal && op <= Op::logical_or);
}

// "max", "+": as it is written.
std::string_view spelling(Formula::Op op);

// As it could be written: "e + 0.9 * x".
std::string text_of(const Formula& formula, const std::vector<std::string>& elements,
                    const std::vector<std::string>& scalars, const std::vector<std::string>& parameters);

}  // namespace hocket::dsl
