#include "runtime/compute/kernels/cpu/norms.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/compute/kernels/cpu/chunks.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"

namespace hocket::kernels {
namespace {

float sum_chunk(DataType type, const Factors& pair, std::size_t chunk) {
    LaneSums sums;
    float widened_a[chunk_lanes], widened_b[chunk_lanes];
    for_each_row(pair.count, chunk, [&](std::size_t first, std::size_t length) {
        const float* a = row_at(type, pair.a, first, length, widened_a);
        const float* b = pair.b == pair.a ? a : row_at(type, pair.b, first, length, widened_b);
        sums.add_products(a, b, length);
    });
    return sums.total();
}

}  // namespace

void sum_chunks(DataType type, std::span<const Factors> pairs, std::size_t first, std::span<float> sums,
                unsigned threads) {
    // Starting a thread pays from a few chunks on.
    const auto parts = static_cast<unsigned>(std::clamp<std::size_t>(sums.size() / 4, 1, threads));
    in_parallel(parts, [&](unsigned part) {
        for_each_chunk(pairs, first + part_begin(sums.size(), 1, part, parts),
                       first + part_begin(sums.size(), 1, part + 1, parts),
                       [&](std::size_t pair, std::size_t chunk, std::size_t number) {
                           sums[number - first] = sum_chunk(type, pairs[pair], chunk);
                       });
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
