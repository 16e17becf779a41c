// Counts the uses of private buffers, and makes those shared that come back (window/shared_by_use.hpp). A
// program that trains passes the same buffers again and again, and rarely knows Hocket's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "runtime/engine/start/start.hpp"
#include "runtime/transport/window/window.hpp"

namespace hocket::engine {

// The uses on one communicator. Not thread-safe.
class BufferUses {
  public:
    static constexpr std::uint64_t least_bytes = 64 * 1024;  // of a buffer: smaller ones gain too little
    static constexpr std::uint64_t uses_until_shared = 3;

    explicit BufferUses(transport::Window& window) : window_(window) {}

    // Call before the start's buffers are resolved. Both are on the host. Never throws.
    void note(const Start& start) noexcept;

  private:
    struct Key {
        const std::byte* memory;
        std::uint64_t bytes;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key& key) const {
            return std::hash<std::uint64_t>()(reinterpret_cast<std::uintptr_t>(key.memory) * 31 + key.bytes);
        }
    };
    struct Uses {
        std::uint64_t counted = 0, awaited = uses_until_shared;
    };
    static constexpr std::size_t most_buffers = 1024;  // then all counts begin anew

    void use(const std::byte* memory, std::uint64_t bytes);

    transport::Window& window_;
    std::unordered_map<Key, Uses, Hash> buffers_;
};

}  // namespace hocket::engine
