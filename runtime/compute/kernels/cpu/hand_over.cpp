#include "runtime/compute/kernels/cpu/hand_over.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace hocket::kernels {
namespace {

#if defined(__x86_64__)
// For fewer bytes, the store buffer hides the time that fetching lines takes.
constexpr std::size_t least_bytes = 1024;

constexpr std::size_t line_bytes = 64;

// Returns true if string instructions write whole lines without reading them ("enhanced rep movsb").
bool has_fast_strings() {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 9 & 1) != 0;
}

// to: at the beginning of a cache line.
void stream_lines(std::byte* to, const std::byte* from, std::size_t lines) {
    for (; lines > 0; --lines, to += line_bytes, from += line_bytes) {
        __m128i parts[line_bytes / sizeof(__m128i)];
        std::memcpy(parts, from, line_bytes);
        for (std::size_t i = 0; i < std::size(parts); ++i)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, parts[i]);
    }
    _mm_sfence();  // streaming stores are not ordered before the signal that announces the data
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % line_bytes);
    std::memcpy(to, from, head);
    const std::size_t lines = (bytes - head) / line_bytes, streamed = head + lines * line_bytes;
    stream_lines(to + head, from + head, lines);
    std::memcpy(to + streamed, from + streamed, bytes - streamed);
}
#endif

}  // namespace

void hand_over(std::byte* to, const std::byte* from, std::size_t bytes, [[maybe_unused]] Path path) {
#if defined(__x86_64__)
    static const bool fast_strings = has_fast_strings();
    if (bytes >= least_bytes && path == Path::memory) return copy_past_caches(to, from, bytes);
    if (bytes >= least_bytes && fast_strings) {
        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

}  // namespace hocket::kernels
