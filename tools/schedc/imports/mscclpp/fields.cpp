#include "tools/schedc/imports/mscclpp/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::tools::imports::mscclpp {
namespace {

constexpr std::size_t most_depth = 16;

[[noreturn]] void refuse_text(const std::string& path, const std::string& text, std::size_t byte,
                              const std::string& message) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
    throw dsl::DiagnosticError(
        dsl::Span(), fmt::format("{}:{}: {}", path, 1 + std::count(text.begin(), end, '\n'), message),
        "MSCCL++'s JSON is one object with the field \"gpus\", a list with an object for each rank");
}

// Text that holds a number may be long.
std::string shown(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    return excerpt(value.is_string() ? '"' + value.get_ref<const std::string&>() + '"' : value.dump());
}

}  // namespace

Json parsed(const std::string& path, const std::string& text) {
    std::vector<std::set<std::string>> names;
    std::string wrong;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) names.emplace_back();
        if (event == Json::parse_event_t::object_end && !names.empty()) names.pop_back();
        if (static_cast<std::size_t>(depth) > most_depth && wrong.empty())
            wrong = fmt::format("lists and objects are nested more than {} times", most_depth);
        if (event == Json::parse_event_t::key && !names.empty() && wrong.empty())
            if (const std::string& name = value.get_ref<const std::string&>();
                !names.back().insert(name).second)
                wrong = fmt::format("an object has the field \"{}\" twice", excerpt(name));
        return wrong.empty();
    };
    try {
        Json result = Json::parse(text, watch);
        if (wrong.empty()) return result;
        throw dsl::DiagnosticError(dsl::Span(), fmt::format("{}: {}", path, wrong),
                                   "plans that MSCCL++ writes have no such objects");
    } catch (const Json::parse_error& error) {
        refuse_text(path, text, error.byte, "this is no JSON");
    } catch (const Json::exception&) {  // a number that no type can hold
        refuse_text(path, text, 0, "this is no JSON");
    }
}

const Json& Fields::field(const Json& object, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end())
        fail(fmt::format("there is no \"{}\"", name), fmt::format("write \"{}\": ...", name));
    return *found;
}

const Json& Fields::list(const Json& object, const char* name) const {
    const Json& value = field(object, name);
    if (!value.is_array())
        fail(fmt::format("\"{}\" is {}, not a list", name, shown(value)),
             fmt::format("write \"{}\": [...]", name));
    return value;
}

const Json& Fields::list_or_nothing(const Json& object, const char* name) const {
    static const Json nothing = Json::array();
    return has(object, name) ? list(object, name) : nothing;
}

int Fields::number(const Json& object, const char* name, int least, int most) const {
    return number(field(object, name), std::string(name), least, most);
}

int Fields::number(const Json& value, const std::string& name, int least, int most) const {
    if (most < least)
        fail(fmt::format("\"{}\" is {}, but there is none to name", name, shown(value)),
             "list it where the GPU or the threadblock has its own");
    const bool is_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT32_MAX;
    if (!value.is_number_integer() || is_large || value.get<std::int64_t>() < least ||
        value.get<std::int64_t>() > most)
        fail(fmt::format("\"{}\" is {}, not a whole number from {} to {}", name, shown(value), least, most),
             most == most_chunks || most == most_gpus ? larger : "");
    return value.get<int>();
}

const std::string& Fields::text(const Json& object, const char* name) const {
    const Json& value = field(object, name);
    if (!value.is_string())
        fail(fmt::format("\"{}\" is {}, not a text", name, shown(value)),
             fmt::format("write \"{}\": \"...\"", name));
    return value.get_ref<const std::string&>();
}

bool Fields::flag(const Json& object, const char* name) const {
    const Json& value = field(object, name);
    if (!value.is_boolean()) fail(fmt::format("\"{}\" is {}, not true or false", name, shown(value)), "");
    return value.get<bool>();
}

Buffer Fields::buffer(const Json& object, const char* name) const {
    const std::string& letter = text(object, name);
    const std::size_t which = letter.size() == 1 ? std::string_view("ios").find(letter[0]) : letter.npos;
    if (which == letter.npos)
        fail(fmt::format("\"{}\" is \"{}\", which is no buffer", name, excerpt(letter)),
             "these are: i (input), o (output) and s (scratch)");
    return static_cast<Buffer>(which);
}

void Fields::check_object(const Json& value, const char* what,
                          std::initializer_list<std::string_view> names) const {
    if (!value.is_object()) fail(fmt::format("{} is {}, not an object", what, shown(value)), "write {...}");
    for (const auto& [name, content] : value.items())
        if (std::ranges::find(names, name) == names.end())
            fail(fmt::format("{} has the field \"{}\", which is not known{}", what, excerpt(name),
                             dsl::did_you_mean(name, std::vector<std::string>(names.begin(), names.end()))),
                 "leave it out if the algorithm does not depend on it");
}

}  // namespace hocket::tools::imports::mscclpp
