// Which starts count their waits instead of their bytes.
#pragma once

#include <cstdint>

#include "dsl/projection/rank_program.hpp"

namespace hocket::engine {

// Up to this size, a rank's part of the work costs less than waiting for the others once more.
inline constexpr std::uint64_t small_bytes = 16 * 1024;
// Where ranks share cores a wait costs a turn of the others, as long as the copy of tens of KiB. This holds
// for collectives that combine nothing: without further waits each rank combines all that the others have.
inline constexpr std::uint64_t small_bytes_in_turns = 64 * 1024;

// shares_memory: with other ranks of its host. in_turns: all ranks are on one host and share its cores, and
// the collective combines nothing.
inline dsl::Protocol protocol_of(std::uint64_t bytes, bool shares_memory, bool in_turns = false) {
    return shares_memory && bytes <= (in_turns ? small_bytes_in_turns : small_bytes)
               ? dsl::Protocol::latency
               : dsl::Protocol::bandwidth;
}

}  // namespace hocket::engine
