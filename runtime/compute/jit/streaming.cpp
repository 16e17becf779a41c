#include "runtime/compute/jit/streaming.hpp"

#include <unistd.h>

#include <algorithm>
#include <span>

namespace hocket::jit {
namespace {

constexpr std::uint64_t line = 64;

// Returns the size of the cache that cores share; on a large machine, the part of it that a few ranks can
// expect.
std::uint64_t shared_cache() {
    static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    constexpr std::uint64_t usual = 32 << 20;
    return bytes > 0 ? std::min<std::uint64_t>(static_cast<std::uint64_t>(bytes), usual) : usual;
}

}  // namespace

// Measured between processes, with both cores of a Zen 5 at work, whether results were read again or not: as
// long as everything that an operation touches fits into the shared cache, the cache takes the results faster
// than memory does.
std::uint64_t least_streamed_bytes(std::uint64_t operands, std::uint64_t destinations) {
    return shared_cache() / (operands + destinations);
}

std::uint64_t streaming_head(const std::byte* const* areas, const std::uint32_t* area_ids,
                             std::uint64_t operands, std::uint64_t destinations, std::uint64_t begin,
                             std::uint64_t bytes, std::uint64_t element_size) {
    if (bytes < least_streamed_bytes(operands, destinations)) return no_streaming;
    const auto address = [&](std::uint32_t id) {
        return reinterpret_cast<std::uintptr_t>(areas[id]) + begin;
    };
    const std::span to(area_ids, destinations), from(area_ids + destinations, operands);
    const std::uint64_t head = -address(to.front()) % line;
    const auto cannot = [&](std::uint32_t id) {
        const auto is_same = [&](std::uint32_t other) { return address(other) == address(id); };
        return -address(id) % line != head || (operands > 1 && std::ranges::any_of(from, is_same));
    };
    const bool in_place = destinations == 1 && address(to.front()) == address(from.front());
    return in_place || head % element_size != 0 || std::ranges::any_of(to, cannot) ? no_streaming : head;
}

}  // namespace hocket::jit
