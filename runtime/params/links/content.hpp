// The protocol's values in a real service: the elements of one chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/params/links/memory.hpp"
#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

// A null value stands for zeros.
struct Content {
    Block block;
    std::uint64_t bytes = 0;
    // Only the nonzero entries are present: sparse_entries() values of the chunk's type, then, from the next
    // multiple of 4 bytes on, as many 32-bit indices, ascending.
    bool is_sparse = false;
    // Set for weights on a server: the update's state beside the weights. Never sent.
    std::vector<Block> states = {};
    std::uint64_t state_bytes = 0;  // of each state
    // Set if another process has lent the block: that process may overwrite it at any time. A copy is valid
    // only if the block is still lent after copying.
    std::shared_ptr<const OthersMemory> lender = nullptr;
};

struct ChunkShape {
    std::uint64_t count, element_bytes;
    std::uint64_t bytes() const { return count * element_bytes; }
};

inline const Content* content_of(const Value& value) {
    return static_cast<const Content*>(value.get());
}

inline Value value_of(Content content) {
    return std::make_shared<const Content>(std::move(content));
}

constexpr std::uint64_t sparse_indices_at(std::uint64_t entries, std::uint64_t element_bytes) {
    return (entries * element_bytes + 3) / 4 * 4;
}
constexpr std::uint64_t sparse_bytes(std::uint64_t entries, std::uint64_t element_bytes) {
    return sparse_indices_at(entries, element_bytes) + entries * 4;
}
// Returns 0 if no number of entries takes exactly this many bytes.
constexpr std::uint64_t sparse_entries(std::uint64_t bytes, std::uint64_t element_bytes) {
    const std::uint64_t entries = bytes / (element_bytes + 4);
    return sparse_bytes(entries, element_bytes) == bytes ? entries : 0;
}

inline const std::uint32_t* sparse_indices(const Content& content, std::uint64_t element_bytes) {
    return reinterpret_cast<const std::uint32_t*>(
        content.block.get() + sparse_indices_at(sparse_entries(content.bytes, element_bytes), element_bytes));
}

}  // namespace hocket::params
