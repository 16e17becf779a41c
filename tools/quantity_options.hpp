// What the tools' options take as sizes and times. For CLI11's transform() and check().
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>

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

}  // namespace hocket::tools
