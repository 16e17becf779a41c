// Starts on tensors that lie apart. They are gathered into memory that the ranks of the host share, and the
// operation works there; at the end its results are scattered to the caller's tensors.
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

// Where gathered tensors lie. What a start gives back serves the next one: memory that was never touched
// costs more than the copy into it. Thread-safe.
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
    std::multimap<std::uint64_t, std::byte*> free_;  // by their bytes
};

// Those of one start.
class GatheredTensors {
  public:
    // memory: as in GatherMemory; must not be null.
    explicit GatheredTensors(std::shared_ptr<GatherMemory> memory) : memory_(std::move(memory)) {}

    // Room for tensors with these bytes, one after another. At least one byte.
    std::byte* room_for(std::span<const std::uint64_t> bytes);

    static void copy_into(std::byte* room, const void* const* tensors, std::span<const std::uint64_t> bytes);

    // The results will be in this room, and finish() copies them to the tensors.
    void expect(const std::byte* room, void* const* tensors, std::span<const std::uint64_t> bytes);

    // The start has ended well.
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
