#include "runtime/compute/kernels/cpu/hand_over.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hocket::kernels {
namespace {

#if defined(__x86_64__)
// For fewer bytes, the store buffer hides the time that fetching lines takes.
constexpr std::size_t least_bytes = 1024;

// Returns true if string instructions write whole lines without reading them ("enhanced rep movsb").
bool has_fast_strings() {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 9 & 1) != 0;
}
#endif

}  // namespace

void hand_over(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
    static const bool fast_strings = has_fast_strings();
    if (bytes >= least_bytes && fast_strings) {
        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

}  // namespace hocket::kernels
