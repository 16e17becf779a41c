#include "runtime/kernels/cpu/norms.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/cpu/feedback.hpp"
#include "runtime/kernels/cpu/parallel.hpp"

namespace hocket::kernels {
namespace {

// Widens a row of lanes where it has to.
const float* row_at(DataType type, const std::byte* elements, std::size_t first, std::size_t count,
                    float* widened) {
    if (type == DataType::float32) return reinterpret_cast<const float*>(elements) + first;
    widen(type, elements + first * element_size(type), count, widened);
    return widened;
}

float sum_chunk(DataType type, const Factors& pair, std::size_t chunk) {
    float lanes[chunk_lanes] = {}, widened_a[chunk_lanes], widened_b[chunk_lanes];
    const std::size_t end = std::min((chunk + 1) * chunk_elements, pair.count);
    for (std::size_t first = chunk * chunk_elements; first < end; first += chunk_lanes) {
        const std::size_t length = std::min(chunk_lanes, end - first);
        const float* a = row_at(type, pair.a, first, length, widened_a);
        const float* b = pair.b == pair.a ? a : row_at(type, pair.b, first, length, widened_b);
        for (std::size_t lane = 0; lane < length; ++lane) lanes[lane] += a[lane] * b[lane];
    }
    for (std::size_t width = chunk_lanes / 2; width > 0; width /= 2)
        for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

// Where a chunk is, counted over all pairs.
struct Position {
    std::size_t pair = 0, chunk = 0;
};

Position position_of(std::span<const Factors> pairs, std::size_t chunk) {
    Position position{0, chunk};
    while (position.pair < pairs.size() && position.chunk >= chunks_of(pairs[position.pair].count))
        position.chunk -= chunks_of(pairs[position.pair++].count);
    return position;
}

}  // namespace

void sum_chunks(DataType type, std::span<const Factors> pairs, std::size_t first, std::span<float> sums,
                unsigned threads) {
    // A thread is worth starting for a few chunks.
    const auto parts = static_cast<unsigned>(std::clamp<std::size_t>(sums.size() / 4, 1, threads));
    in_parallel(parts, [&](unsigned part) {
        const std::size_t begin = part_begin(sums.size(), 1, part, parts);
        Position position = position_of(pairs, first + begin);
        for (std::size_t i = begin; i < part_begin(sums.size(), 1, part + 1, parts); ++i) {
            while (position.chunk >= chunks_of(pairs[position.pair].count)) position = {position.pair + 1, 0};
            sums[i] = sum_chunk(type, pairs[position.pair], position.chunk++);
        }
    });
}

double inner_product(std::span<const float> sums) {
    double sum = 0;
    for (const float of_chunk : sums) sum += of_chunk;
    return sum;
}

void norms(DataType type, std::span<const Tensor> tensors, unsigned threads, float* norms) {
    std::vector<Factors> pairs;
    std::size_t chunks = 0;
    for (const Tensor& tensor : tensors) {
        pairs.push_back({tensor.elements, tensor.elements, tensor.count});
        chunks += chunks_of(tensor.count);
    }
    std::vector<float> sums(chunks);
    sum_chunks(type, pairs, 0, sums, threads);
    std::span<const float> rest = sums;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const std::size_t own = chunks_of(tensors[t].count);
        norms[t] = static_cast<float>(std::sqrt(inner_product(rest.first(own))));
        rest = rest.subspan(own);
    }
}

}  // namespace hocket::kernels
