#include "dsl/graph/update.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::dsl {
namespace {

std::string in_parentheses(const std::string& text) {
    const bool is_one = text.find(' ') == std::string::npos && !text.starts_with('-');
    return is_one ? text : fmt::format("({})", text);
}

}  // namespace

std::string text_of(const Update& update) {
    std::vector<std::string> buffers = {"w", "g"}, parameters = {"workers", "round"};
    buffers.insert(buffers.end(), update.states.begin(), update.states.end());
    for (const Update::Number& number : update.numbers) {
        std::string text = in_parentheses(text_of(number.value, {}, {}, parameters));
        if (number.exponent)
            text = fmt::format("({} ** {})", text,
                               in_parentheses(text_of(*number.exponent, {}, {}, parameters)));
        parameters.push_back(std::move(text));
    }
    std::string text;
    for (const std::string& state : update.states) text += fmt::format("state {} like w  ", state);
    for (const Update::Step& step : update.steps) {
        std::vector<std::string> elements;
        for (const std::uint32_t buffer : step.elements) elements.push_back(buffers[buffer]);
        const std::string value = text_of(step.formula, elements, update.totals, parameters);
        text += step.kind == Update::Step::Kind::total
                    ? fmt::format("let {} = total({})  ", update.totals[step.target], value)
                    : fmt::format("{} = {}  ", buffers[step.target], value);
    }
    text.erase(text.size() - std::min<std::size_t>(text.size(), 2));  // the blanks after the last one
    return text;
}

}  // namespace hocket::dsl
