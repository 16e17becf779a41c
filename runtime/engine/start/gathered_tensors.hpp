// Starts on tensors that are not contiguous. They are gathered into memory that the ranks of the host share,
// where the operation works; at the end its results are scattered to the caller's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/transport/window/window.hpp"

namespace hocket::engine {

// The memory of gathered tensors. A block that a start gives back serves the next one, because first touching
// fresh memory costs more than copying into it. Thread-safe.
class GatherMemory : public std::enable_shared_from_this<GatherMemory> {
  public:
    struct GiveBack {
        std::shared_ptr<GatherMemory> memory;
        std::uint64_t bytes;
        void operator()(std::byte* block) const { memory->give_back(block, bytes); }
    };
    using Block = std::unique_ptr<std::byte, GiveBack>;

    explicit GatherMemory(transport::Window& window) : window_(window) {}
    ~GatherMemory();
    GatherMemory(const GatherMemory&) = delete;

    // bytes: at least 1. Throws hocket::Error (out_of_memory).
    Block take(std::uint64_t bytes);

  private:
    void give_back(std::byte* block, std::uint64_t bytes);

    transport::Window& window_;
    std::mutex mutex_;
    std::multimap<std::uint64_t, std::byte*> free_;  // by size
};

// The gathered tensors of one start.
class GatheredTensors {
  public:
    // memory: as in GatherMemory; must not be null.
    explicit GatheredTensors(std::shared_ptr<GatherMemory> memory) : memory_(std::move(memory)) {}

    // Returns contiguous space for tensors of these sizes. At least one byte.
    std::byte* room_for(std::span<const std::uint64_t> bytes);

    static void copy_into(std::byte* room, const void* const* tensors, std::span<const std::uint64_t> bytes);

    // Registers results: finish() will copy them from `room` to the tensors.
    void expect(const std::byte* room, void* const* tensors, std::span<const std::uint64_t> bytes);

    // Copies the results, after the start has ended in success.
    void finish() const;

  private:
    struct Result {
        void* to;
        const std::byte* from;
        std::uint64_t bytes;
    };
    std::shared_ptr<GatherMemory> memory_;
    std::vector<GatherMemory::Block> blocks_;
    std::vector<Result> results_;
};

}  // namespace hocket::engine
