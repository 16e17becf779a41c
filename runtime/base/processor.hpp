// Hints to the processor about memory that threads or processes share.
#pragma once

#include <atomic>

namespace hocket {

// Call between two looks at a word that another core is going to write.
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Fetches a line that others have read before this core has to write it.
inline void about_to_write(const void* line) {
#if defined(__x86_64__)
    // A no-op on processors without this instruction.
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
    __builtin_prefetch(line, 1);
#endif
}

}  // namespace hocket
