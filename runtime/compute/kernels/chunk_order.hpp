// Defines the order in which sums over a tensor are formed. The processor's kernels and the device's keep to
// it, and so do ranks that each sum some of the chunks: all get the same bits.
//
// A tensor is divided into chunks of 65,536 elements; the last may be shorter. Lane l of 256 adds, in float32
// and in ascending order, the products of elements l, l + 256, l + 512, ... of its chunk; product and sum are
// each rounded. Then lane l adds lane l + 128, for l below 128; then l + 64, and so on down to one lane,
// which is the sum of the chunk. The chunks' sums are added in ascending order as float64.
#pragma once

#include <cstddef>

namespace hocket::kernels {

constexpr std::size_t chunk_elements = 65536, chunk_lanes = 256;

constexpr std::size_t chunks_of(std::size_t count) {
    return (count + chunk_elements - 1) / chunk_elements;
}

}  // namespace hocket::kernels
