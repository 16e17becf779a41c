// The deadline of what must happen in a test.
#pragma once

#include <chrono>

namespace hocket::test {

inline constexpr std::chrono::seconds long_enough{100};  // no test waits longer for anything

}  // namespace hocket::test
