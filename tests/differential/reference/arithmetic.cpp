// The expressions that are numbers.
#include <algorithm>
#include <limits>

#include "tests/differential/reference/values.hpp"

namespace hocket::reference {
namespace {

using Number = std::int64_t;

[[noreturn]] void overflow(Position at) {
    refuse(at, "overflow");
}

Number product(Number a, Number b, Position at) {
    Number result = 0;
    if (__builtin_mul_overflow(a, b, &result)) overflow(at);
    return result;
}

Number quotient(Number a, Number b, Position at) {
    if (b == 0) refuse(at, "division by 0");
    if (a == std::numeric_limits<Number>::min() && b == -1) overflow(at);
    const Number towards_zero = a / b;
    const bool is_rounded_up = a % b != 0 && (a < 0) != (b < 0);
    return is_rounded_up ? towards_zero - 1 : towards_zero;
}

Number power(Number base, Number exponent, Position at) {
    if (exponent < 0) refuse(at, "an exponent below 0");
    if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    // For all other bases, 64 factors overflow.
    Number result = 1;
    for (Number i = 0; i < exponent; ++i) result = product(result, base, at);
    return result;
}

bool is_power_of_two(Number n) {
    return n > 0 && (n & (n - 1)) == 0;
}

Number log2_down(Number n, Position at) {
    if (n <= 0) refuse(at, "the logarithm of a number that is not above 0");
    Number result = 0;
    while (n > 1) {
        n /= 2;
        ++result;
    }
    return result;
}

Number log2_up(Number n, Position at) {
    return log2_down(n, at) + (is_power_of_two(n) ? 0 : 1);
}

// The largest exponent with base ** exponent <= n.
Number log_down(Number n, Number base, Position at) {
    if (n <= 0) refuse(at, "the logarithm of a number that is not above 0");
    if (base < 2) refuse(at, "a logarithm to a base below 2");
    Number result = 0, power = 1;
    while (!__builtin_mul_overflow(power, base, &power) && power <= n) ++result;
    return result;
}

// The smallest exponent with base ** exponent >= n.
Number log_up(Number n, Number base, Position at) {
    const Number down = log_down(n, base, at);
    return power(base, down, at) == n ? down : down + 1;
}

Number shift(Number n, Number places, bool left, Position at) {
    if (places < 0 || places > 63) refuse(at, "a shift by less than 0 or more than 63 places");
    for (Number i = 0; i < places; ++i) n = left ? product(n, 2, at) : quotient(n, 2, at);
    return n;
}

Number call(const Expression& expression, const Scope& scope, const Topology& topology) {
    std::vector<Number> operands;
    for (const Expression& operand : expression.operands) {
        operands.push_back(number_of(operand, scope, topology));
    }
    const std::string& name = expression.name;
    if (operands.size() == 1) {
        if (name == "pow2") return is_power_of_two(operands[0]);
        if (name == "log2") return log2_down(operands[0], expression.at);
        if (name == "log2_up") return log2_up(operands[0], expression.at);
    } else {
        if (operands.size() == 2) {
            if (name == "log") return log_down(operands[0], operands[1], expression.at);
            if (name == "log_up") return log_up(operands[0], operands[1], expression.at);
        }
        if (name == "min") return *std::min_element(operands.begin(), operands.end());
        if (name == "max") return *std::max_element(operands.begin(), operands.end());
    }
    refuse(expression.at, "no function '" + name + "' with this number of arguments");
}

Number unary(const Expression& expression, Number operand) {
    if (expression.form == Form::logical_not) return operand == 0;
    Number result = 0;
    if (__builtin_sub_overflow(Number{0}, operand, &result)) overflow(expression.at);
    return result;
}

Number binary(const Expression& expression, Number a, Number b) {
    Number result = 0;
    switch (expression.form) {
        case Form::equal:
            return a == b;
        case Form::not_equal:
            return a != b;
        case Form::less:
            return a < b;
        case Form::less_equal:
            return a <= b;
        case Form::greater:
            return a > b;
        case Form::greater_equal:
            return a >= b;
        case Form::bit_or:
            return a | b;
        case Form::exclusive_or:
            return a ^ b;
        case Form::bit_and:
            return a & b;
        case Form::shift_left:
        case Form::shift_right:
            return shift(a, b, expression.form == Form::shift_left, expression.at);
        case Form::add:
            if (__builtin_add_overflow(a, b, &result)) overflow(expression.at);
            return result;
        case Form::subtract:
            if (__builtin_sub_overflow(a, b, &result)) overflow(expression.at);
            return result;
        case Form::multiply:
            return product(a, b, expression.at);
        case Form::divide:
            return quotient(a, b, expression.at);
        case Form::modulo:
            if (b <= 0) refuse(expression.at, "mod wants a positive divisor");
            return wrapped(a, b);
        default:
            return power(a, b, expression.at);
    }
}

}  // namespace

std::int64_t number_of(const Expression& expression, const Scope& scope, const Topology& topology) {
    const auto operand = [&](std::size_t i) { return number_of(expression.operands[i], scope, topology); };
    switch (expression.form) {
        case Form::number:
            return expression.number;
        case Form::logical_and:
            return operand(0) != 0 && operand(1) != 0;
        case Form::logical_or:
            return operand(0) != 0 || operand(1) != 0;
        case Form::negate:
        case Form::logical_not:
            return unary(expression, operand(0));
        case Form::name:
        case Form::member:
        case Form::index:
        case Form::tuple:
        case Form::choice:
        case Form::call: {
            if (expression.form == Form::call && !is_made(expression, scope)) {
                return call(expression, scope, topology);
            }
            const Value value = value_of(expression, scope, topology);
            if (value.form != Value::Form::number) refuse(expression.at, "this is not a number");
            return value.number;
        }
        default: {
            const Number left = operand(0);
            return binary(expression, left, operand(1));
        }
    }
}

}  // namespace hocket::reference
