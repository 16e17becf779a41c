// The parts of the caller's buffers that a start reads and writes. Valid only while the start begins.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/staging.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

using device::Stretch;

// Returns the layout of the whole start.
Layout layout_of(const Start& start);

// Returns true if this rank's share of x has elements; if it has none, its buffer may be anywhere, and null.
bool has_elements(const Plan& plan, const Extent& extent, dsl::Share share);

// Returns the bytes of a buffer that holds all pieces, or only this rank's own.
std::uint64_t bytes_of(const Start& start, const Layout& layout, dsl::Share share);

// Return the stretches in bytes, counted from the beginning of send or recv. By pair: one for each other
// rank's piece, beginning with the next rank; otherwise one.
std::vector<Stretch> stretches_sent(const Start& start);
std::vector<Stretch> stretches_received(const Start& start);

}  // namespace hocket::engine
