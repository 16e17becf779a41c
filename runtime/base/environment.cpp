#include "runtime/base/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "dsl/base/quantities.hpp"
#include "runtime/base/error.hpp"

namespace hocket {
namespace {

[[noreturn]] void refuse_variable(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

}  // namespace

Environment process_environment() {
    return [](const char* name) -> const char* { return std::getenv(name); };
}

std::int64_t check_range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
        refuse_variable(fmt::format("{} is {}; it must be from {} to {}", name, value, low, high));
    return value;
}

std::int64_t check_timeout(std::string_view name, std::int64_t value, std::int64_t low) {
    if (value < low)
        refuse_variable(fmt::format("{} is {}; it must be {} milliseconds or more", name, value, low));
    return std::min(value, longest_timeout_ms);
}

std::optional<std::string> EnvironmentReader::text(const char* name) const {
    const char* value = environment_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
}

std::optional<std::int64_t> EnvironmentReader::number(const char* name, std::int64_t low,
                                                      std::int64_t high) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
    if (error != std::errc() || end != value->data() + value->size())
        refuse_variable(
            fmt::format("{} is \"{}\"; it must be a whole number from {} to {}", name, *value, low, high));
    return check_range(name, result, low, high);
}

std::optional<std::int64_t> EnvironmentReader::timeout(const char* name, std::int64_t low) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
    const bool is_long = error == std::errc::result_out_of_range && value->front() != '-';
    if ((error != std::errc() && !is_long) || end != value->data() + value->size())
        refuse_variable(fmt::format("{} is \"{}\"; it must be a whole number of milliseconds, {} or more",
                                    name, *value, low));
    return is_long ? longest_timeout_ms : check_timeout(name, result, low);
}

bool EnvironmentReader::is_on(const char* name, bool unless_set) const {
    const auto value = text(name);
    if (!value) return unless_set;
    if (*value != "on" && *value != "off")
        refuse_variable(fmt::format("{} is \"{}\"; it must be on or off", name, *value));
    return *value == "on";
}

std::optional<std::uint64_t> EnvironmentReader::bytes(const char* name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    try {
        return dsl::parse_size(*value);
    } catch (const dsl::QuantityError& error) {
        refuse_variable(fmt::format("{} is \"{}\": {}; {}", name, *value, error.what(), error.hint));
    }
}

}  // namespace hocket
