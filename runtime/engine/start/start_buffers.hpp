// What of the caller's buffers a start reads and writes. Only while it begins.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/staging.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

using device::Stretch;

// Of the whole start.
Layout layout_of(const Start& start);

// Bytes of a buffer that all pieces together have, or this rank's own.
std::uint64_t bytes_of(const Start& start, const Layout& layout, dsl::Share share);

// Bytes, counted from the beginning of send or recv. By pair: one for each other rank's piece, beginning with
// the next rank; otherwise one.
std::vector<Stretch> stretches_sent(const Start& start);
std::vector<Stretch> stretches_received(const Start& start);

}  // namespace hocket::engine
