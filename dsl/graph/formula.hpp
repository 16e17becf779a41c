// The formula that a computation applies to each element: a small expression, in postfix order.
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
        parameter,  // the value of parameter item.index at this start
        element,    // the element of operand item.index at the place that is calculated
        scalar,     // the sum item.index of the tensor that holds the element
        negate,
        logical_not,
        absolute,
        square_root,
        to_float16,  // rounds to a float16; the result is an ordinary number again
        to_bfloat16,
        add,
        subtract,
        multiply,
        divide,
        minimum,  // NaN if an operand is NaN
        maximum,
        equal,  // comparisons return 1 or 0
        not_equal,
        less,
        less_equal,
        greater,
        greater_equal,
        logical_and,  // any number but 0 is true
        logical_or,
        select,  // the second operand if the first is not 0, otherwise the third
    };
    struct Item {
        Op op;
        std::uint32_t index = 0;
        double number = 0;
        friend auto operator<=>(const Item&, const Item&) = default;
    };
    std::vector<Item> items;

    void push(Op op) { items.push_back({op}); }
    // Returns the number of values that an evaluation holds at a time.
    std::size_t depth() const;
    // Returns the operands that the result is a sum of, besides other terms: e and x for "e + x - 0.5 * w".
    // Operands that occur more than once are left out: "e + x - x" holds nothing of x.
    std::vector<std::uint32_t> summands() const;
    // True for "a + b", where a and b are different operands.
    bool is_sum_of_two() const;
};

// How the values of a tensor's elements become one number: `let n = total(...)` is read as sum(n), `let n =
// largest(...)` as max(n).
enum class Fold : std::uint8_t { sum, largest };
constexpr std::string_view maker_of(Fold fold) {
    return fold == Fold::sum ? "total" : "largest";
}
constexpr std::string_view reader_of(Fold fold) {
    return fold == Fold::sum ? "sum" : "max";
}

// Returns the number of values that it takes from the stack.
constexpr std::size_t operands_of(Formula::Op op) {
    using Op = Formula::Op;
    if (op <= Op::scalar) return 0;
    if (op <= Op::to_bfloat16) return 1;
    return op == Op::select ? 3 : 2;
}

// True if the result is 1 or 0, and so carries none of its operands' values.
constexpr bool is_truth(Formula::Op op) {
    using Op = Formula::Op;
    return op == Op::logical_not || (op >= Op::equal && op <= Op::logical_or);
}

// Returns the operator as it is written: "max", "+".
std::string_view spelling(Formula::Op op);

// Returns the formula as it could be written: "e + 0.9 * x". scalars: as they are written, "sum(n)".
std::string text_of(const Formula& formula, const std::vector<std::string>& elements,
                    const std::vector<std::string>& scalars, const std::vector<std::string>& parameters);

}  // namespace hocket::dsl
