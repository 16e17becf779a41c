// Starts on registered memory that does not begin and end with a page: its outer pages are private
// (window/adopted.hpp), so this rank and its local peers work on memory of the window that has all of it.
// What lies in the outer pages is copied there before, and results are copied back at the end: less than two
// pages.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/engine/start/start.hpp"
#include "runtime/transport/window/window.hpp"

namespace hocket::engine {

class StagingBuffers {
  public:
    StagingBuffers() = default;

    // Puts staging buffers in the place of those of the start's buffers that have one, and fills them.
    StagingBuffers(Start& start, const transport::Window& window);

    // The start has ended well: its results go to the caller's buffer.
    void finish() const;

  private:
    struct Part {
        std::byte *there, *here;  // in the caller's buffer, in the staging buffer
        std::size_t bytes;
    };
    std::vector<Part> results_;
};

}  // namespace hocket::engine
