// The errors that calls of the engine throw, for the bodies of ranks.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "runtime/base/error.hpp"
#include "tests/runtime/engine/ranks.hpp"

namespace hocket::test {

// The error that the call throws, as "status: text"; or "no failure".
template <typename Call>
std::string failure_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return fmt::format("{}: {}", static_cast<int>(error.status()), error.what());
    }
    return "no failure";
}

// Throws unless the text contains all parts.
inline void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
        expect(text.find(part) != std::string::npos, fmt::format("\"{}\" is not in: {}", part, text));
}

}  // namespace hocket::test
