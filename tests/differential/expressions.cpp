#include "tests/differential/expressions.hpp"

#include <algorithm>

namespace hocket::differential {
namespace {

Binds binds_of(const std::string& op) {
    if (op == "or") return Binds::or_;
    if (op == "and") return Binds::and_;
    if (op == "|") return Binds::bit_or;
    if (op == "xor") return Binds::xor_;
    if (op == "&") return Binds::bit_and;
    if (op == "<<" || op == ">>") return Binds::shift;
    if (op == "+" || op == "-") return Binds::sum;
    if (op == "*" || op == "/" || op == "mod") return Binds::product;
    if (op == "**") return Binds::power;
    return Binds::comparison;
}

Binds above(Binds binds) {
    return static_cast<Binds>(static_cast<int>(binds) + 1);
}

bool compare(const std::string& op, std::int64_t a, std::int64_t b) {
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<") return a < b;
    if (op == "<=") return a <= b;
    if (op == ">") return a > b;
    return a >= b;
}

}  // namespace

std::string within(const Expression& expression, Binds least) {
    return expression.binds < least ? "(" + expression.text + ")" : expression.text;
}

Expression binary(const Expression& left, const std::string& op, const Expression& right) {
    const Binds binds = binds_of(op);
    const bool to_the_right = op == "**";
    const bool chains = binds != Binds::comparison;
    return {within(left, to_the_right || !chains ? above(binds) : binds) + " " + op + " " +
                within(right, to_the_right ? binds : above(binds)),
            binds};
}

Expression Expressions::leaf(std::int64_t value, const std::vector<Number>& known) {
    std::vector<const Number*> equal, near;
    for (const Number& number : known) {
        if (number.value == value) equal.push_back(&number);
        if (std::abs(number.value - value) <= 3) near.push_back(&number);
    }
    if (!equal.empty() && random_.chance(60)) {
        features_.insert("name of a number");
        return {random_.pick(equal)->name};
    }
    if (!near.empty() && random_.chance(25)) {
        const Number& number = *random_.pick(near);
        const std::int64_t rest = value - number.value;
        return binary({number.name}, rest < 0 ? "-" : "+", {std::to_string(std::abs(rest))});
    }
    if (value >= 0) return {std::to_string(value)};
    if (random_.chance(50)) return binary({"0"}, "-", {std::to_string(-value)});
    features_.insert("prefix -");
    return {"-" + std::to_string(-value), Binds::prefix};
}

Expression Expressions::bit(bool value, const std::vector<Number>& known, int depth) {
    switch (random_.below(5)) {
        case 0: {
            features_.insert("not");
            const Expression inner = number(value ? 0 : random_.between(1, 3), known, depth - 1);
            return {"not " + within(inner, Binds::not_), Binds::not_};
        }
        case 1: {  // the right side is looked at only where it matters
            const bool is_and = random_.chance(50);
            features_.insert(is_and ? "and" : "or");
            if (value != is_and && random_.chance(30)) {
                features_.insert("unseen right side");
                const Expression left = number(is_and ? 0 : random_.between(1, 2), known, depth - 1);
                return binary(left, is_and ? "and" : "or", binary({"1"}, "/", {"0"}));
            }
            const std::int64_t other =
                is_and == value ? random_.between(1, 2) * (is_and ? 1 : 0) : random_.between(0, 2);
            const std::int64_t decides = value ? random_.between(1, 4) : 0;
            const bool first = random_.chance(50);
            const Expression left = number(first ? decides : other, known, depth - 1);
            const Expression right = number(first ? other : decides, known, depth - 1);
            return binary(left, is_and ? "and" : "or", right);
        }
        case 2: {
            features_.insert("pow2");
            const std::int64_t inner =
                value ? std::int64_t{1} << random_.below(4) : random_.pick<std::int64_t>({0, 3, 5, 6, 7, -4});
            return {"pow2(" + number(inner, known, depth - 1).text + ")"};
        }
        default: {
            features_.insert("comparison as a number");
            static const std::vector<std::string> operators{"==", "!=", "<", "<=", ">", ">="};
            while (true) {
                const std::string& op = random_.pick(operators);
                const std::int64_t a = random_.between(-2, 9), b = random_.between(-2, 9);
                if (compare(op, a, b) != value) continue;
                const Expression left = number(a, known, depth - 1);
                return binary(left, op, number(b, known, depth - 1));
            }
        }
    }
}

Expression Expressions::by_bits(std::int64_t value, const std::vector<Number>& known, int depth) {
    const auto both = [&](std::int64_t a, const std::string& op, std::int64_t b) {
        features_.insert(op);
        const Expression left = number(a, known, depth - 1);
        return binary(left, op, number(b, known, depth - 1));
    };
    const std::int64_t bits = random_.below(8);
    switch (random_.below(4)) {
        case 0:
            return both(value | bits, "&", value | (random_.below(8) & ~bits));
        case 1:
            return both(value & ~bits, "|", value & (bits | random_.below(8)));
        case 2: {
            std::int64_t places = 0;
            while (places < 3 && value != 0 && value % (std::int64_t{2} << places) == 0) ++places;
            places = random_.between(0, places);
            return both(value / (std::int64_t{1} << places), "<<", places);
        }
        default: {
            const std::int64_t places = random_.between(0, 3);
            const std::int64_t unit = std::int64_t{1} << places;
            return both(value * unit + random_.below(unit), ">>", places);
        }
    }
}

Expression Expressions::logarithm(std::int64_t value, const std::vector<Number>& known, int depth) {
    const std::int64_t base = random_.between(2, 5);
    std::int64_t power = 1;
    for (std::int64_t i = 0; i < value; ++i) power *= base;
    const bool up = random_.chance(50);
    const std::int64_t argument = up ? power - (power > base ? random_.below(power - power / base) : 0)
                                     : power + random_.below(power * (base - 1));
    const std::string function = up ? "log_up" : "log";
    features_.insert(function);
    const std::string first = number(argument, known, depth - 1).text;
    return {function + "(" + first + ", " + number(base, known, depth - 1).text + ")"};
}

Expression Expressions::choice(std::int64_t value, const std::vector<Number>& known, int depth) {
    const bool first = random_.chance(50);
    features_.insert(first ? "then of a value" : "else of a value");
    const Expression condition = truth(first, known, depth - 1);
    const Expression wanted = number(value, known, depth - 1);
    const bool is_unseen = random_.chance(20);
    if (is_unseen) features_.insert("unseen side of a value");
    const Expression other =
        is_unseen ? Expression{"1 mod 0", Binds::product} : number(random_.between(-2, 9), known, depth - 1);
    return {"if " + condition.text + " then " + (first ? wanted : other).text + " else " +
                (first ? other : wanted).text,
            Binds::choice};
}

Expression Expressions::compound(std::int64_t value, const std::vector<Number>& known, int depth) {
    const auto both = [&](std::int64_t a, const char* op, std::int64_t b) {
        const Expression left = number(a, known, depth - 1);
        return binary(left, op, number(b, known, depth - 1));
    };
    const auto call = [&](const std::string& function, std::int64_t a, std::int64_t b) {
        features_.insert(function);
        const std::string first = number(a, known, depth - 1).text;
        return Expression{function + "(" + first + ", " + number(b, known, depth - 1).text + ")"};
    };
    const std::int64_t k = random_.between(1, 5);
    switch (random_.below(16)) {
        case 0:
            return both(value - k, "+", k);
        case 1:
            return both(value + k, "-", k);
        case 2:
            if (value % k != 0) return both(value - 2 * k, "+", 2 * k);
            return both(value / k, "*", k);
        case 3: {
            features_.insert(value < 0 ? "/ of a negative number" : "/");
            return both(value * k + random_.below(k), "/", k);
        }
        case 4:
            if (value < 0) return both(value - k, "+", k);
            features_.insert("mod");
            return both(value + (value + k) * random_.between(-2, 2), "mod", value + k);
        case 5: {
            const bool first = random_.chance(50);
            return call("min", first ? value : value + k, first ? value + k : value);
        }
        case 6: {
            const bool first = random_.chance(50);
            return call("max", first ? value : value - k, first ? value - k : value);
        }
        case 7:
            if (value < 0 || value > 1000) return both(value + k, "-", k);
            features_.insert("xor");
            return both(value ^ k, "xor", k);
        case 8: {
            if (value < 0 || value > 5) return both(value - k, "+", k);
            const std::int64_t power = std::int64_t{1} << value;
            const bool up = random_.chance(50);
            const std::int64_t argument =
                up ? power - (power > 2 ? random_.below(power / 2) : 0) : power + random_.below(power);
            features_.insert(up ? "log2_up" : "log2");
            return {(up ? "log2_up(" : "log2(") + number(argument, known, depth - 1).text + ")"};
        }
        case 9:
            for (const std::int64_t base : {2, 3})
                for (std::int64_t exponent = 0, power = 1; power <= value; ++exponent, power *= base)
                    if (power == value) {
                        features_.insert("**");
                        return both(base, "**", exponent);
                    }
            return both(value + k, "-", k);
        case 10: {
            if (value == 0 || value == 1) return bit(value == 1, known, depth);
            return both(value - 1, "+", 1);
        }
        case 11:
        case 12:
            return by_bits(value, known, depth);
        case 13:
            if (value < 0 || value > 4) return both(value + k, "-", k);
            return logarithm(value, known, depth);
        case 14:
            return choice(value, known, depth);
        default: {
            features_.insert("prefix -");
            const Expression inner = number(-value, known, depth - 1);
            return {"-" + within(inner, Binds::power), Binds::prefix};
        }
    }
}

Expression Expressions::number(std::int64_t value, const std::vector<Number>& known, int depth) {
    if (depth <= 0 || value > 1'000'000 || value < -1'000'000 || random_.chance(65))
        return leaf(value, known);
    return compound(value, known, depth);
}

Expression Expressions::wrapping(std::int64_t value, std::int64_t size, const std::vector<Number>& known) {
    if (random_.chance(80)) return number(value, known);
    features_.insert("wrap-around");
    const std::int64_t turns = random_.pick<std::int64_t>({-3, -2, -1, 1, 2});
    if (random_.chance(40)) return number(value + turns * size, known);
    const Expression base = number(value, known, 1), size_text = number(size, known, 1);
    const Expression multiple =
        turns == 1 || turns == -1 ? size_text : binary({std::to_string(std::abs(turns))}, "*", size_text);
    return binary(base, turns < 0 ? "-" : "+", multiple);
}

Expression Expressions::truth(bool value, const std::vector<Number>& known, int depth) {
    if (depth > 0 && random_.chance(70)) return bit(value, known, depth);
    return number(value ? random_.pick<std::int64_t>({1, 2, 3, -1, -2}) : 0, known, depth);
}

std::size_t Expressions::most_items(std::int64_t base) {
    std::size_t items = 0;
    for (std::int64_t power = 1; power < INT64_MAX / base; power *= base) ++items;
    return items;
}

Expression Expressions::item(const std::vector<std::int64_t>& list, std::int64_t base,
                             const Expression& index, const std::vector<Number>& known) {
    if (std::all_of(list.begin(), list.end(), [&](std::int64_t entry) { return entry == list[0]; }))
        return number(list[0], known, 1);
    features_.insert("list as a number");
    std::int64_t code = 0;
    for (std::size_t i = list.size(); i-- > 0;) code = code * base + list[i];
    const Expression base_text = number(base, known, 1);
    const Expression divisor =
        binary({within(base_text, Binds::postfix)}, "**", {within(index, Binds::postfix)});
    return binary(binary({std::to_string(code)}, "/", divisor), "mod", base_text);
}

}  // namespace hocket::differential
