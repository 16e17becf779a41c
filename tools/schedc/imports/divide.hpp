// The division of buffers into chunks: what GPUs say of their inputs and outputs must fit together.
#pragma once

#include "tools/schedc/imports/algorithm.hpp"

namespace hocket::tools::imports {

// Finds `chunks` and `chunks_of_piece` from the chunks of each GPU. Throws DiagnosticError if they do not fit
// together, or are too many.
void divide(Algorithm& algorithm);

// How many chunks of a buffer a GPU can name.
int limit_of(const Algorithm& algorithm, int gpu, Buffer buffer);

// Throws DiagnosticError if one of these chunks is outside of the buffer of `gpu`.
void check_range(const Algorithm& algorithm, const Place& place, int gpu, const Chunks& chunks, int count);

}  // namespace hocket::tools::imports
