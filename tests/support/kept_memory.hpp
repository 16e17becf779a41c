// For tests that allocate large blocks again and again: most of their time would go into page faults.
#pragma once

#include <malloc.h>

namespace hocket::test {

// Lets malloc(3) keep what is freed from now on for the next allocation, however large it is.
inline void keep_freed_memory() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace hocket::test
