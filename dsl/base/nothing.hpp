// The index of nothing, in the tables of the compiler.
#pragma once

#include <cstdint>

namespace hocket::dsl {

inline constexpr std::uint32_t nothing = ~std::uint32_t{0};

}  // namespace hocket::dsl
