// Buffers far back in the memory that a rank shares.
#pragma once

#include "runtime/transport/window/window.hpp"

namespace hocket::test {

// Takes the room of this rank's first extents, so that later allocations lie in another one, except small
// blocks, for which a hole may be left.
inline void use_up_extents(transport::Window& window, unsigned extents) {
    for (;;) {
        void* const block = window.allocate(64 * 1024);
        if (transport::extent_of(window.offset_of(block, 1).value()) < extents) continue;
        return window.release(block);
    }
}

}  // namespace hocket::test
