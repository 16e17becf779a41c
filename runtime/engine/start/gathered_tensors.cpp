#include "runtime/engine/start/gathered_tensors.hpp"

#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace hocket::engine {

GatherMemory::~GatherMemory() {
    for (const auto& [bytes, block] : free_) window_.release(block);
}

GatherMemory::Block GatherMemory::take(std::uint64_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        // Much larger blocks are left for the starts that need them.
        const auto known = free_.lower_bound(bytes);
        if (known != free_.end() && known->first / 2 <= bytes) {
            const auto [room, block] = *known;
            free_.erase(known);
            return Block(block, {shared_from_this(), room});
        }
    }
    auto* block = static_cast<std::byte*>(window_.allocate(bytes));
    return Block(block, {shared_from_this(), bytes});
}

void GatherMemory::give_back(std::byte* block, std::uint64_t bytes) {
    try {
        const std::lock_guard lock(mutex_);
        free_.emplace(bytes, block);
    } catch (const std::bad_alloc&) {
        window_.release(block);
    }
}

std::byte* GatheredTensors::room_for(std::span<const std::uint64_t> bytes) {
    blocks_.push_back(memory_->take(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0})));
    return blocks_.back().get();
}

void GatheredTensors::copy_into(std::byte* room, const void* const* tensors,
                                std::span<const std::uint64_t> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] > 0) std::memcpy(room, tensors[i], bytes[i]);
        room += bytes[i];
    }
}

void GatheredTensors::expect(const std::byte* room, void* const* tensors,
                             std::span<const std::uint64_t> bytes) {
    results_.reserve(results_.size() + bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] > 0) results_.push_back({tensors[i], room, bytes[i]});
        room += bytes[i];
    }
}

void GatheredTensors::finish() const {
    for (const Result& result : results_) std::memcpy(result.to, result.from, result.bytes);
}

}  // namespace hocket::engine
