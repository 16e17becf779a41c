#include "dsl/graph/update.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::dsl {
namespace {

std::string in_parentheses(const std::string& text) {
    const bool is_one = text.find(' ') == std::string::npos && !text.starts_with('-');
    return is_one ? text : fmt::format("({})", text);
}

std::string name_of(const Update& update, std::int64_t buffer) {
    if (const ExtraBuffer* extra = extra_at(update.extras, buffer)) return extra->name;
    return buffer == Update::weights ? "w" : "g";
}

}  // namespace

std::size_t Update::count(ExtraBuffer::Kind kind) const {
    return static_cast<std::size_t>(std::ranges::count(extras, kind, &ExtraBuffer::kind));
}

std::string text_of(const Update& update) {
    std::vector<std::string> parameters = {"workers", "round"};
    for (const Update::Number& number : update.numbers) {
        std::string text = in_parentheses(text_of(number.value, {}, {}, parameters));
        if (number.exponent)
            text = fmt::format("({} ** {})", text,
                               in_parentheses(text_of(*number.exponent, {}, {}, parameters)));
        parameters.push_back(std::move(text));
    }
    std::string text;
    for (const ExtraBuffer& extra : update.extras)
        if (extra.kind == ExtraBuffer::Kind::state) text += fmt::format("state {} like w  ", extra.name);
    for (const Computation& computation : update.computations) {
        std::vector<std::string> elements, scalars;
        for (const std::int64_t buffer : computation.elements) elements.push_back(name_of(update, buffer));
        for (const std::int64_t buffer : computation.scalars)
            scalars.push_back(fmt::format("{}({})", reader_of(extra_at(update.extras, buffer)->fold),
                                          name_of(update, buffer)));
        const std::string value = text_of(computation.formula, elements, scalars, parameters),
                          target = name_of(update, computation.target);
        const ExtraBuffer* const made = extra_at(update.extras, computation.target);
        text += computation.kind == Computation::Kind::total
                    ? fmt::format("let {} = {}({})  ", target, maker_of(made->fold), value)
                    : fmt::format("{} = {}  ", target, value);
    }
    text.erase(text.size() - std::min<std::size_t>(text.size(), 2));  // the blanks after the last one
    return text;
}

}  // namespace hocket::dsl
