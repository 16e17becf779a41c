// Elements whose results show in which order they were combined, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>

#include "runtime/base/types.hpp"

namespace hocket::test {

// Fills memory with finite numbers with fractions; integers may be any.
template <DataType type>
void fill_with_random(std::byte* to, std::uint64_t count, std::mt19937_64& random) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    for (std::uint64_t i = 0; i < count; ++i) {
        Stored value;
        if constexpr (type == DataType::boolean)
            value = static_cast<Stored>(random() & 1);
        else if constexpr (std::is_integral_v<Worked>)
            value = static_cast<Stored>(random());
        else
            value = static_cast<Stored>(static_cast<Worked>(std::uniform_real_distribution<>(-8, 8)(random)));
        std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
}

inline void fill_with_random(DataType type, std::byte* to, std::uint64_t count, std::mt19937_64& random) {
    with_type(type, [&]<DataType t>(TypeConstant<t>) { fill_with_random<t>(to, count, random); });
}

}  // namespace hocket::test
