// Sizes in binary units.
#pragma once

#include <cstdint>

namespace hocket::test {

inline constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;

}  // namespace hocket::test
