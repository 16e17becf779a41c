// Buffers that lie far back in the memory that a rank shows.
#pragma once

#include "runtime/transport/window/window.hpp"

namespace hocket::test {

// Takes the room of this rank's first extents, so that what is allocated from now on lies in another one:
// all of it but small blocks, for which a hole may be left.
inline void use_up_extents(transport::Window& window, unsigned extents) {
    for (;;) {
        void* const block = window.allocate(64 * 1024);
        if (transport::extent_of(window.offset_of(block, 1).value()) < extents) continue;
        return window.release(block);
    }
}

}  // namespace hocket::test
