// The sums of a profile's times. Layers i+1 to j of the papers, which count from 1, are those from i to below
// j of Profile::layers: both are written (i, j) here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/overlap/profile.hpp"

namespace hocket::overlap {

// The batches [1, l1], [l1 + 1, l2], ..., [.., L] of consecutive layers, as the list of their last layers l1,
// l2, ..., L. In the backward direction the last batch runs first.
using Batches = std::vector<std::size_t>;

// Returns where a batch begins, as (i, j) above.
inline std::size_t begin_of(const Batches& batches, std::size_t index) {
    return index == 0 ? 0 : batches[index - 1];
}

// Each result is a difference of entries of one list of sums, so it grows with j and falls with i, in
// floating point, too.
class Sums {
  public:
    explicit Sums(const Profile& profile) : startup_(profile.startup) {
        for (const Layer& layer : profile.layers) {
            transfer_.push_back(transfer_.back() + layer.transfer);
            compute_.push_back(compute_.back() + layer.compute);
            bytes_.push_back(bytes_.back() + layer.bytes.value_or(0));
        }
    }

    std::size_t layers() const { return transfer_.size() - 1; }
    double startup() const { return startup_; }
    double transfer(std::size_t i, std::size_t j) const { return transfer_[j] - transfer_[i]; }
    // Returns the time of a batch of these layers: its start-up and its transfers.
    double communication(std::size_t i, std::size_t j) const { return startup_ + transfer(i, j); }
    double computation(std::size_t i, std::size_t j) const { return compute_[j] - compute_[i]; }
    std::uint64_t bytes(std::size_t i, std::size_t j) const { return bytes_[j] - bytes_[i]; }

    // Returns true if these layers may form a batch where batches have up to `limit` bytes (0: no limit). A
    // single layer always may, because it cannot be divided.
    bool may_be_batch(std::size_t i, std::size_t j, std::uint64_t limit) const {
        return limit == 0 || j == i + 1 || bytes(i, j) <= limit;
    }

  private:
    double startup_;
    std::vector<double> transfer_{0}, compute_{0};
    std::vector<std::uint64_t> bytes_{0};
};

}  // namespace hocket::overlap
