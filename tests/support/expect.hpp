// For what tests run in processes of their own, where Catch2's macros are not at home.
#pragma once

#include <stdexcept>
#include <string>

namespace hocket::test {

// Throws `text`, which becomes the process's outcome.
inline void expect(bool holds, const std::string& text) {
    if (!holds) throw std::runtime_error(text);
}

}  // namespace hocket::test
