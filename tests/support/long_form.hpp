// Tests that take long have two forms. The usual one runs a sample of their cases, with each kind at least
// once; the long one runs all. `tools/test --long` and tests/mutations/run ask for it by HOCKET_TEST_LONG.
#pragma once

#include <cstdlib>

namespace hocket::test {

inline bool is_long_form() {
    return std::getenv("HOCKET_TEST_LONG") != nullptr;
}

// Cases, sizes or rounds.
template <typename Number>
Number in_long_form(Number all, Number usual) {
    return is_long_form() ? all : usual;
}

}  // namespace hocket::test
