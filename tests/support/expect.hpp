// For code that tests run in processes of their own, where Catch2's macros do not work.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>

namespace hocket::test {

// Throws `text`, which becomes the process's outcome.
inline void expect(bool holds, const std::string& text) {
    if (!holds) throw std::runtime_error(text);
}

// The same without a string, or with a text that is made only where it is needed: for loops over all
// elements.
inline void expect(bool holds, const char* text) {
    if (!holds) throw std::runtime_error(text);
}
template <std::invocable Text>
void expect(bool holds, const Text& text) {
    if (!holds) throw std::runtime_error(text());
}

}  // namespace hocket::test
