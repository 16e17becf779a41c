// Maps a model's tensors to its layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hocket::overlap {

class LayersOfTensors {
  public:
    // tensor_bytes: by tensor, beginning with the first layer's. layer_tensors: the number of tensors of each
    // layer; they add up to the number of tensors.
    LayersOfTensors(const std::vector<std::uint64_t>& tensor_bytes,
                    const std::vector<std::size_t>& layer_tensors) {
        for (const std::size_t tensors : layer_tensors) {
            std::uint64_t bytes = 0;
            for (std::size_t i = 0; i < tensors; ++i) bytes += tensor_bytes[first_.back() + i];
            first_.push_back(first_.back() + tensors);
            bytes_.push_back(bytes);
        }
    }

    // For the layer behind the last one, returns the end.
    std::size_t first_tensor(std::size_t layer) const { return first_[layer]; }
    const std::vector<std::uint64_t>& bytes() const { return bytes_; }  // by layer

  private:
    std::vector<std::size_t> first_{0};
    std::vector<std::uint64_t> bytes_;
};

}  // namespace hocket::overlap
