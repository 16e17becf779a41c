// A reference selection, which sorts all elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/compute/kernels/cpu/topk.hpp"

namespace hocket::test {

// A selection: elements' bits and indices.
template <typename Word>
struct Sparse {
    std::vector<Word> words;
    std::vector<std::uint32_t> indices;
    bool non_finite = false;

    bool operator==(const Sparse&) const = default;
};

template <typename Word>
Sparse<Word> pick(const std::vector<Word>& elements, std::vector<std::uint32_t> indices, Word infinity) {
    Sparse<Word> sparse;
    std::sort(indices.begin(), indices.end());
    for (const std::uint32_t index : indices) {
        sparse.words.push_back(elements[index]);
        sparse.non_finite = sparse.non_finite || kernels::magnitude(elements[index]) >= infinity;
    }
    sparse.indices = std::move(indices);
    return sparse;
}

// By ordering: all above the k-th largest magnitude, and a run of those that equal it.
template <typename Word>
Sparse<Word> plain_topk(const std::vector<Word>& elements, std::size_t k, const kernels::Draw& draw,
                        Word infinity) {
    k = std::min(k, elements.size());
    if (k == 0) return {};
    std::vector<Word> sizes;
    for (const Word element : elements) sizes.push_back(kernels::magnitude(element));
    auto ordered = sizes;
    std::nth_element(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(k - 1), ordered.end(),
                     std::greater<>());
    const Word pivot = ordered[k - 1];
    std::vector<std::uint32_t> indices, ties;
    for (std::uint32_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] >= pivot) (sizes[i] > pivot ? indices : ties).push_back(i);
    const std::size_t needed = k - indices.size();
    const auto first =
        ties.begin() + static_cast<std::ptrdiff_t>(kernels::first_of_ties(draw, ties.size(), needed));
    indices.insert(indices.end(), first, first + static_cast<std::ptrdiff_t>(needed));
    return pick(elements, std::move(indices), infinity);
}

// Selects by the kernel, and checks that nothing behind the destinations was written.
template <typename Word>
Sparse<Word> kernel_topk(DataType type, const std::vector<Word>& elements, std::size_t k,
                         const kernels::TopkOptions& options) {
    constexpr std::size_t guard = 64;
    const std::size_t room = std::min(k, elements.size());
    Sparse<Word> sparse{std::vector<Word>(room + guard, Word{0x5a5a}),
                        std::vector<std::uint32_t>(room + guard, 0x5a5a5a5a)};
    const auto selected =
        kernels::topk(type, reinterpret_cast<const std::byte*>(elements.data()), elements.size(), k, options,
                      reinterpret_cast<std::byte*>(sparse.words.data()), sparse.indices.data());
    const auto untouched = [&](const auto& values, auto mark) {
        return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(room), values.end(),
                           [&](auto value) { return value == mark; });
    };
    if (selected.count != room || !untouched(sparse.words, Word{0x5a5a}) ||
        !untouched(sparse.indices, 0x5a5a5a5au))
        return {{}, {0}};  // equals no selection
    sparse.words.resize(room);
    sparse.indices.resize(room);
    sparse.non_finite = selected.non_finite;
    return sparse;
}

template <typename Word>
constexpr Word infinity_of(DataType type) {
    return static_cast<Word>(type == DataType::float32   ? 0x7f800000
                             : type == DataType::float16 ? 0x7c00
                                                         : 0x7f80);
}

}  // namespace hocket::test
