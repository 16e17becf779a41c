#include "runtime/compute/kernels/cpu/optimizers/step.hpp"

#include <algorithm>
#include <vector>

#include "runtime/compute/kernels/cpu/chunks.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"

namespace hocket::kernels {
namespace {

constexpr std::size_t least_for_a_thread = 2;  // chunks; for fewer, a thread does not pay

template <unsigned n>
struct Row {
    float* weights;
    const float* gradient;
    float* states[n];
    std::size_t length;
};

template <unsigned n>
Row<n> row_of_tensor(const OptimizedTensor<n>& tensor, DataType gradients, std::size_t first,
                     std::size_t length, float* widened) {
    Row<n> row{
        tensor.weights + first, row_at(gradients, tensor.gradient, first, length, widened), {}, length};
    for (unsigned s = 0; s < n; ++s) row.states[s] = tensor.states[s] + first;
    return row;
}

// Steps are passed by value: a reference might alias the stores, so that each number would be loaded again.
template <typename Step, unsigned n>
[[gnu::always_inline]] inline void find_directions(const Step step, const Row<n> row, float* directions) {
    for (std::size_t i = 0; i < row.length; ++i) {
        float states[n];
        for (unsigned s = 0; s < n; ++s) states[s] = row.states[s][i];
        directions[i] = step.direction(row.weights[i], row.gradient[i], states);
    }
}

template <typename Step, unsigned n>
[[gnu::always_inline]] inline void apply_to_row(const Step step, float own_rate, const Row<n> row) {
    for (std::size_t i = 0; i < row.length; ++i) {
        float states[n];
        for (unsigned s = 0; s < n; ++s) states[s] = row.states[s][i];
        step.apply(own_rate, row.weights[i], row.gradient[i], states);
        for (unsigned s = 0; s < n; ++s) row.states[s][i] = states[s];
    }
}

template <typename Step>
NormSums sum_chunk(const Step& step, DataType gradients, const OptimizedTensor<Step::states>& tensor,
                   std::size_t chunk) {
    LaneSums weights, direction;
    float widened[chunk_lanes], directions[chunk_lanes];
    for_each_row(tensor.count, chunk, [&](std::size_t first, std::size_t length) {
        const auto row = row_of_tensor(tensor, gradients, first, length, widened);
        find_directions(step, row, directions);
        weights.add_products(row.weights, row.weights, length);
        direction.add_products(directions, directions, length);
    });
    return {weights.total(), direction.total()};
}

template <typename Step>
void apply_to_chunk(const Step& step, float own_rate, DataType gradients,
                    const OptimizedTensor<Step::states>& tensor, std::size_t chunk) {
    float widened[chunk_lanes];
    for_each_row(tensor.count, chunk, [&](std::size_t first, std::size_t length) {
        apply_to_row(step, own_rate, row_of_tensor(tensor, gradients, first, length, widened));
    });
}

template <typename List, typename Use>
void in_chunks(const List& list, std::size_t first, std::size_t chunks, unsigned threads, const Use& use) {
    const auto parts =
        static_cast<unsigned>(std::clamp<std::size_t>(chunks / least_for_a_thread, 1, threads));
    in_parallel(parts, [&](unsigned part) {
        for_each_chunk(list, first + part_begin(chunks, 1, part, parts),
                       first + part_begin(chunks, 1, part + 1, parts), use);
    });
}

}  // namespace

template <typename Step>
void sum_norms(const Step& step, DataType gradients, TensorsOf<Step> tensors, std::size_t first,
               std::span<NormSums> sums, unsigned threads) {
    in_chunks(tensors, first, sums.size(), threads,
              [&](std::size_t tensor, std::size_t chunk, std::size_t number) {
                  sums[number - first] = sum_chunk(step, gradients, tensors[tensor], chunk);
              });
}

template <typename Step>
bool trust_ratios(const Step& step, TensorsOf<Step> tensors, std::span<const NormSums> sums, float* ratios) {
    bool takes = true;
    std::size_t chunk = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        double weights = 0, direction = 0;
        for (const std::size_t end = chunk + chunks_of(tensors[t].count); chunk < end; ++chunk) {
            weights += sums[chunk].weights;
            direction += sums[chunk].direction;
        }
        ratios[t] = trust_ratio(step, rounded::root(weights), rounded::root(direction));
        takes = takes && takes_step(ratios[t]);
    }
    return takes;
}

template <typename Step>
void apply_step(const Step& step, DataType gradients, TensorsOf<Step> tensors, const float* ratios,
                std::size_t first, std::size_t chunks, unsigned threads) {
    in_chunks(tensors, first, chunks, threads, [&](std::size_t tensor, std::size_t chunk, std::size_t) {
        apply_to_chunk(step, rounded::product(step.rate, ratios[tensor]), gradients, tensors[tensor], chunk);
    });
}

template <typename Step>
bool take_step(const Step& step, DataType gradients, TensorsOf<Step> tensors, unsigned threads) {
    std::size_t chunks = 0;
    for (const auto& tensor : tensors) chunks += chunks_of(tensor.count);
    std::vector<NormSums> sums(chunks);
    std::vector<float> ratios(tensors.size());
    sum_norms(step, gradients, tensors, 0, sums, threads);
    if (!trust_ratios(step, tensors, sums, ratios.data())) return false;
    apply_step(step, gradients, tensors, ratios.data(), 0, chunks, threads);
    return true;
}

#define HOCKET_OPTIMIZER(Step)                                                                               \
    template void sum_norms(const Step&, DataType, TensorsOf<Step>, std::size_t, std::span<NormSums>,        \
                            unsigned);                                                                       \
    template bool trust_ratios(const Step&, TensorsOf<Step>, std::span<const NormSums>, float*);             \
    template void apply_step(const Step&, DataType, TensorsOf<Step>, const float*, std::size_t, std::size_t, \
                             unsigned);                                                                      \
    template bool take_step(const Step&, DataType, TensorsOf<Step>, unsigned);
HOCKET_OPTIMIZER(LarsStep)
HOCKET_OPTIMIZER(LambStep)
#undef HOCKET_OPTIMIZER

}  // namespace hocket::kernels
