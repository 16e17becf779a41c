// Models for the optimizers' tests: lists of tensors with the states that an optimizer keeps.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/chunk_order.hpp"
#include "runtime/compute/kernels/optimizers/lamb.hpp"
#include "runtime/compute/kernels/optimizers/lars.hpp"

namespace hocket::test {

inline constexpr DataType gradient_types[] = {DataType::float32, DataType::float16, DataType::bfloat16};

// The places of a model's arrays. The tensors lie in them one after another.
template <unsigned n>
struct ModelMemory {
    float* weights;
    std::byte* gradients;
    float* states[n];
};

template <typename Step>
struct Model {
    static constexpr unsigned n = Step::states;

    DataType type;  // of the gradients
    std::vector<std::size_t> counts;
    std::vector<float> weights, numbers;  // numbers: the gradients, as float32
    std::vector<float> states[n];
    std::vector<std::byte> gradients;

    Model(DataType of, const std::vector<std::size_t>& sizes, std::uint64_t seed) : type(of), counts(sizes) {
        std::mt19937_64 random(seed);
        std::normal_distribution<float> normal;
        for (const std::size_t count : counts)
            for (std::size_t i = 0; i < count; ++i) {
                weights.push_back(normal(random));
                numbers.push_back(normal(random) / 16);
                states[0].push_back(normal(random) / 32);
                if constexpr (n > 1) states[1].push_back(std::abs(normal(random)) / 256);  // a mean square
            }
        store_gradients();
    }

    // Call after changing `numbers`. Rounds them to numbers of the type.
    void store_gradients() {
        gradients.resize(numbers.size() * element_size(type));
        with_type(type, [&]<DataType t>(TypeConstant<t>) {
            using Stored = typename ElementOf<t>::Stored;
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                const auto stored = static_cast<Stored>(numbers[i]);
                std::memcpy(gradients.data() + i * sizeof stored, &stored, sizeof stored);
                numbers[i] = static_cast<float>(stored);
            }
        });
    }

    ModelMemory<n> memory() {
        ModelMemory<n> here{weights.data(), gradients.data(), {}};
        for (unsigned s = 0; s < n; ++s) here.states[s] = states[s].data();
        return here;
    }

    std::vector<kernels::OptimizedTensor<n>> tensors(const ModelMemory<n>& at) const {
        std::vector<kernels::OptimizedTensor<n>> list;
        std::size_t first = 0;
        for (const std::size_t count : counts) {
            kernels::OptimizedTensor<n> tensor{
                at.weights + first, at.gradients + first * element_size(type), {}, count};
            for (unsigned s = 0; s < n; ++s) tensor.states[s] = at.states[s] + first;
            list.push_back(tensor);
            first += count;
        }
        return list;
    }
    auto tensors() { return tensors(memory()); }

    std::size_t chunks() const {
        std::size_t sum = 0;
        for (const std::size_t count : counts) sum += kernels::chunks_of(count);
        return sum;
    }
};

// The bits of numbers, and one number for all NaNs.
inline std::vector<std::uint32_t> bits_but_for_nans(const std::vector<float>& numbers) {
    std::vector<std::uint32_t> bits(numbers.size());
    std::uint32_t* next = bits.data();
    for (const float number : numbers)
        *next++ = number != number ? 0x7fc00000 : std::bit_cast<std::uint32_t>(number);
    return bits;
}

// Everything that a step may change, as bits.
template <typename Step>
std::vector<std::vector<std::uint32_t>> content(const Model<Step>& model) {
    std::vector<std::vector<std::uint32_t>> all = {bits_but_for_nans(model.weights)};
    for (const auto& states : model.states) all.push_back(bits_but_for_nans(states));
    return all;
}

// A check of a == b that fails would print all numbers, which takes minutes.
template <typename Content>
bool same(const Content& a, const Content& b) {
    return a == b;
}

inline constexpr kernels::LarsOptions usual_lars{0.5, 0.9, 5e-4, 0.02, 1e-8, true};
inline constexpr kernels::LambOptions usual_lamb{0.01, 0.9, 0.999, 1e-6, 0.01, 7, true};

template <typename Step>
Step usual_step() {
    if constexpr (Step::states == 1)
        return Step(usual_lars);
    else
        return Step(usual_lamb);
}

}  // namespace hocket::test
