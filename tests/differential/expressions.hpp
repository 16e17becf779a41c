// Random expressions of a known value.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/differential/random.hpp"

namespace hocket::differential {

// The precedence of an expression's outermost operator, as the language defines it.
enum class Binds {
    choice,
    or_,
    and_,
    not_,
    comparison,
    bit_or,
    xor_,
    bit_and,
    shift,
    sum,
    product,
    prefix,
    power,
    postfix
};

struct Expression {
    std::string text;
    Binds binds = Binds::postfix;
};

// In parentheses if it binds less than that.
std::string within(const Expression& expression, Binds least);
// left op right, with the parentheses that it needs.
Expression binary(const Expression& left, const std::string& op, const Expression& right);

struct Number {
    std::string name;  // a let, a loop's variable, "g.size"
    std::int64_t value;
};

class Expressions {
  public:
    Expressions(Random& random, std::set<std::string>& features) : random_(random), features_(features) {}

    // An expression for a number; `known`: names that it may contain.
    Expression number(std::int64_t value, const std::vector<Number>& known, int depth = 2);
    // An expression for a number modulo `size`.
    Expression wrapping(std::int64_t value, std::int64_t size, const std::vector<Number>& known);
    // A condition.
    Expression truth(bool value, const std::vector<Number>& known, int depth = 1);
    // An expression for item `index` (an expression) of a list of at most most_items(base) numbers below
    // `base`.
    Expression item(const std::vector<std::int64_t>& list, std::int64_t base, const Expression& index,
                    const std::vector<Number>& known);
    static std::size_t most_items(std::int64_t base);

  private:
    Expression leaf(std::int64_t value, const std::vector<Number>& known);
    Expression compound(std::int64_t value, const std::vector<Number>& known, int depth);
    Expression by_bits(std::int64_t value, const std::vector<Number>& known, int depth);
    Expression logarithm(std::int64_t value, const std::vector<Number>& known, int depth);
    Expression choice(std::int64_t value, const std::vector<Number>& known, int depth);
    Expression bit(bool value, const std::vector<Number>& known, int depth);

    Random& random_;
    std::set<std::string>& features_;
};

}  // namespace hocket::differential
