#include "dsl/graph/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace hocket::dsl {
namespace {

constexpr std::string_view spellings[] = {
    "",  "",    "",    "",   "-",  "not", "abs", "sqrt", "float16", "bfloat16", "+",  "-",     "*",
    "/", "min", "max", "==", "!=", "<",   "<=",  ">",    ">=",      "and",      "or", "select"};

bool is_call(Formula::Op op) {
    using Op = Formula::Op;
    return op == Op::select || op == Op::minimum || op == Op::maximum ||
           (op >= Op::absolute && op <= Op::to_bfloat16);
}

}  // namespace

std::size_t Formula::depth() const {
    std::size_t now = 0, most = 0;
    for (const Item& item : items) {
        now += 1 - operands_of(item.op);
        most = std::max(most, now);
    }
    return most;
}

std::vector<std::uint32_t> Formula::summands() const {
    std::vector<std::vector<std::uint32_t>> stack;
    for (const Item& item : items) {
        std::vector<std::uint32_t> result;
        const std::size_t first = stack.size() - operands_of(item.op);
        if (item.op == Op::element) result = {item.index};
        if (item.op == Op::add || item.op == Op::subtract) result = stack[first];
        if (item.op == Op::add) result.insert(result.end(), stack[first + 1].begin(), stack[first + 1].end());
        stack.resize(first);
        stack.push_back(std::move(result));
    }
    std::vector<std::uint32_t> all = stack.empty() ? std::vector<std::uint32_t>() : std::move(stack.back());
    std::erase_if(all, [&](std::uint32_t element) {
        const auto is_it = [&](const Item& item) { return item.op == Op::element && item.index == element; };
        return std::ranges::count_if(items, is_it) > 1;
    });
    return all;
}

bool Formula::is_sum_of_two() const {
    return items.size() == 3 && items[0].op == Op::element && items[1].op == Op::element &&
           items[0].index != items[1].index && items[2].op == Op::add;
}

std::string_view spelling(Formula::Op op) {
    return spellings[static_cast<std::size_t>(op)];
}

std::string text_of(const Formula& formula, const std::vector<std::string>& elements,
                    const std::vector<std::string>& scalars, const std::vector<std::string>& parameters) {
    using Op = Formula::Op;
    std::vector<std::string> stack;
    for (const Formula::Item& item : formula.items) {
        const std::size_t n = operands_of(item.op);
        std::vector<std::string> args(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end());
        stack.resize(stack.size() - n);
        if (item.op == Op::number)
            stack.push_back(fmt::format("{}", item.number));
        else if (item.op == Op::parameter)
            stack.push_back(parameters.at(item.index));
        else if (item.op == Op::element)
            stack.push_back(elements.at(item.index));
        else if (item.op == Op::scalar)
            stack.push_back(scalars.at(item.index));
        else if (is_call(item.op))
            stack.push_back(fmt::format("{}({})", spelling(item.op), fmt::join(args, ", ")));
        else if (n == 1)
            stack.push_back(fmt::format("({} {})", spelling(item.op), args[0]));
        else
            stack.push_back(fmt::format("({} {} {})", args[0], spelling(item.op), args[1]));
    }
    std::string text = stack.empty() ? "" : stack.back();
    if (text.size() > 2 && text.front() == '(' && text.back() == ')') {
        int depth = 0;
        bool is_one = true;
        for (std::size_t i = 0; i + 1 < text.size(); ++i) {
            depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
            is_one &= depth > 0;
        }
        if (is_one) text = text.substr(1, text.size() - 2);
    }
    return text;
}

}  // namespace hocket::dsl
