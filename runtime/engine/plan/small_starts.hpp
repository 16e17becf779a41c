// Which starts count their waits instead of their bytes.
#pragma once

#include <cstdint>

#include "dsl/projection/rank_program.hpp"

namespace hocket::engine {

// Up to this size, a rank's part of the work costs less than waiting for the others once more.
inline constexpr std::uint64_t small_bytes = 16 * 1024;

// shares_memory: with other ranks of its host.
inline dsl::Protocol protocol_of(std::uint64_t bytes, bool shares_memory) {
    return shares_memory && bytes <= small_bytes ? dsl::Protocol::latency : dsl::Protocol::bandwidth;
}

}  // namespace hocket::engine
