// A model whose gradients are known, for tests of hkt_overlap.
#pragma once

#include <hocket.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/capi/params/service.hpp"

namespace hocket::test {

struct CloseOverlap {
    void operator()(hkt_overlap* overlap) const { hkt_overlap_close(overlap); }
};
using Overlap = std::unique_ptr<hkt_overlap, CloseOverlap>;

// Layers of very different sizes, one of them without tensors, and one with tensors that share a chunk.
class OverlapModel {
  public:
    static constexpr std::size_t layers = 7;
    static constexpr hkt_overlap_layer list[layers] = {{"first", 1},  {nullptr, 2}, {"idle", 0}, {"large", 2},
                                                       {"single", 1}, {"three", 3}, {"last", 1}};
    // together: all tensors lie in one buffer, one after another.
    explicit OverlapModel(bool together = true) {
        constexpr std::size_t counts[] = {1000, 3, 90, 70000, 7, 1, 20000, 100, 3, 131};
        for (const std::size_t count : counts) {
            names_.push_back("t" + std::to_string(names_.size()));
            counts_.push_back(count);
        }
        gradients_ = places(gradient_memory_, together);
        weights_ = places(weight_memory_, together);
        for (std::size_t i = 0; i < counts_.size(); ++i)
            tensors_.push_back({names_[i].c_str(), counts_[i], HKT_FLOAT32});
    }
    OverlapModel(const OverlapModel&) = delete;

    const hkt_params_tensor* tensors() const { return tensors_.data(); }
    std::size_t count() const { return tensors_.size(); }
    void* const* gradients() { return gradients_.data(); }
    void* const* weights() { return weights_.data(); }

    // The gradient of rank `rank` in iteration `iteration`: numbers of many sizes, so that the order of a sum
    // shows.
    static float gradient(int rank, int iteration, std::size_t tensor, std::size_t i) {
        std::uint32_t x = static_cast<std::uint32_t>(rank * 7919 + iteration * 104729) +
                          static_cast<std::uint32_t>(tensor * 1299709 + i * 15485863);
        x ^= x >> 16;
        x *= 0x7feb352dU;
        x ^= x >> 15;
        x *= 0x846ca68bU;
        x ^= x >> 16;
        return static_cast<float>(static_cast<std::int32_t>(x)) * (x % 3 == 0 ? 1e-9F : 1e-5F);
    }

    // The gradients of a layer's tensors, as the backward pass makes them.
    void compute(std::size_t layer, int rank, int iteration) {
        for (std::size_t tensor = first_tensor(layer); tensor < first_tensor(layer + 1); ++tensor)
            for (std::size_t i = 0; i < counts_[tensor]; ++i)
                static_cast<float*>(gradients_[tensor])[i] = gradient(rank, iteration, tensor, i);
    }

    // Added up in the order of the ranks; if there are levels, first those of each group of `inner` ranks.
    static float sum(int ranks, int iteration, std::size_t tensor, std::size_t i, int inner = 1) {
        float all = 0;
        for (int first = 0; first < ranks; first += inner) {
            float group = gradient(first, iteration, tensor, i);
            for (int rank = first + 1; rank < first + inner; ++rank)
                group += gradient(rank, iteration, tensor, i);
            all = first == 0 ? group : all + group;
        }
        return all;
    }
    void expect_averages(int ranks, int iteration, int inner = 1) const {
        for (std::size_t tensor = 0; tensor < counts_.size(); ++tensor)
            for (std::size_t i = 0; i < counts_[tensor]; ++i)
                expect_bits(static_cast<const float*>(gradients_[tensor])[i],
                            sum(ranks, iteration, tensor, i, inner) / static_cast<float>(ranks), tensor, i);
    }
    // Checks a layer's weights if the service adds, after this many iterations from 0 on.
    void expect_weights(std::size_t layer, int workers, int iterations) const {
        for (std::size_t tensor = first_tensor(layer); tensor < first_tensor(layer + 1); ++tensor)
            for (std::size_t i = 0; i < counts_[tensor]; ++i) {
                float weight = 0;
                for (int iteration = 0; iteration < iterations; ++iteration)
                    weight += sum(workers, iteration, tensor, i);
                expect_bits(static_cast<const float*>(weights_[tensor])[i], weight, tensor, i);
            }
    }

  private:
    static std::size_t first_tensor(std::size_t layer) {
        std::size_t first = 0;
        for (std::size_t i = 0; i < layer; ++i) first += list[i].tensors;
        return first;
    }
    static void expect_bits(float is, float should_be, std::size_t tensor, std::size_t i) {
        expect(std::memcmp(&is, &should_be, sizeof is) == 0, [&] {
            return "element " + std::to_string(i) + " of tensor " + std::to_string(tensor) + " is " +
                   std::to_string(is) + " and should be " + std::to_string(should_be);
        });
    }
    std::vector<void*> places(std::vector<std::vector<float>>& memory, bool together) const {
        std::vector<void*> places;
        std::size_t all = 0;
        for (const std::size_t count : counts_) all += count;
        if (together) memory.emplace_back(all);
        std::size_t before = 0;
        for (const std::size_t count : counts_) {
            places.push_back(together ? memory[0].data() + before : memory.emplace_back(count).data());
            before += count;
        }
        return places;
    }

    std::vector<std::string> names_;
    std::vector<std::size_t> counts_;
    std::vector<std::vector<float>> gradient_memory_, weight_memory_;
    std::vector<void*> gradients_, weights_;
    std::vector<hkt_params_tensor> tensors_;
};

// An iteration, with `made` called before each layer's backward pass, and `needed` before its forward pass.
template <typename Needed, typename Made>
void iterate(hkt_overlap* overlap, const Needed& needed, const Made& made) {
    for (std::size_t layer = 0; layer < OverlapModel::layers; ++layer) {
        must(hkt_overlap_forward(overlap, layer));
        needed(layer);
    }
    must(hkt_overlap_begin_backward(overlap));
    for (std::size_t layer = OverlapModel::layers; layer-- > 0;) {
        made(layer);
        must(hkt_overlap_backward(overlap, layer));
    }
    must(hkt_overlap_finish(overlap));
}

}  // namespace hocket::test
