// Figures of predictions.
#pragma once

#include "tests/support/test.hpp"

namespace hocket::test {

constexpr double us = 1e-6;

inline Approx exactly(double value) {
    return Approx(value).epsilon(1e-9).margin(0);
}

}  // namespace hocket::test
