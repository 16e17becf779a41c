// What the tools' options take as sizes and times. For CLI11's transform() and check().
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/quantities.hpp"

namespace hocket::tools {

// Turns "1.5M" into its bytes.
inline CLI::Validator as_size() {
    return CLI::Validator(
        [](std::string& text) -> std::string {
            try {
                text = std::to_string(dsl::parse_size(text));
                return "";
            } catch (const dsl::QuantityError& error) {
                return std::string(error.what()) + "; " + error.hint;
            }
        },
        "SIZE");
}

// Accepts a finite number of seconds above 0.
inline CLI::Validator is_timeout() {
    return CLI::Validator(
        [](std::string& text) -> std::string {
            double seconds = 0;
            const char* const last = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), last, seconds);
            if (error == std::errc() && end == last && seconds > 0 && std::isfinite(seconds)) return "";
            return "'" + text + "' is no limit of time; give seconds above 0, such as 60 or 0.5";
        },
        "SECONDS");
}

// Returns the name and the number of "rate=0.1"; no name if it is not like this.
inline std::pair<std::string, double> assignment_in(const std::string& text) {
    const std::size_t equal = text.find('=');
    double number = 0;
    if (equal == std::string::npos || !CLI::detail::lexical_cast(text.substr(equal + 1), number)) return {};
    return {text.substr(0, equal), number};
}

inline const CLI::Validator is_assignment(
    [](std::string& text) -> std::string {
        if (!assignment_in(text).first.empty()) return "";
        return fmt::format("'{}' is not NAME=NUMBER, as in rate=0.1", text);
    },
    "NAME=NUMBER");

// Returns the numbers by their names. Throws CLI::ValidationError if one is given twice.
inline std::map<std::string, double> parameters_in(const std::vector<std::string>& texts) {
    std::map<std::string, double> parameters;
    for (const std::string& text : texts)
        if (!parameters.insert(assignment_in(text)).second)
            throw CLI::ValidationError("--parameter " + assignment_in(text).first + " is given twice");
    return parameters;
}

}  // namespace hocket::tools
