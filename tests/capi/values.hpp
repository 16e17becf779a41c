// What ranks give to collectives, and get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hocket::test {

using Values = std::vector<std::int32_t>;

// Of memory that a call must leave alone.
constexpr std::int32_t untouched = -77;

inline Values input(int rank, std::size_t count) {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<std::int32_t>(i * 31) + (rank + 1) * 1'000'003;
    return values;
}

}  // namespace hocket::test
