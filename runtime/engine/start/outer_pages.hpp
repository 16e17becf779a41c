// For operations on registered memory that does not begin and end at a page boundary. Its outer pages are
// private (window/adopted.hpp), so this rank and its local peers work on staging buffers in the window that
// hold all of it. The contents of the outer pages, less than two pages, are copied there first, and results
// are copied back at the end.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/engine/start/start.hpp"
#include "runtime/transport/window/window.hpp"

namespace hocket::engine {

class OuterPages {
  public:
    OuterPages() = default;

    // Replaces those of the start's buffers that have staging buffers by these, and fills them.
    OuterPages(Start& start, const transport::Window& window);

    // Copies the results to the caller's buffer, after the start has ended in success.
    void finish() const;

  private:
    struct Part {
        std::byte *there, *here;  // in the caller's buffer; in the staging buffer
        std::size_t bytes;
    };
    std::vector<Part> results_;
};

}  // namespace hocket::engine
