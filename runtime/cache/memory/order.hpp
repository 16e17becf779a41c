// The order in which samples will be used: the epochs' permutations, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hocket::cache {

// Immutable. Takes 32 bytes of memory per position.
class Order {
  public:
    // The first `cursor` positions have been used already. A key may occur several times. Throws
    // Error(invalid_argument) if the cursor is behind the end.
    Order(std::span<const std::uint64_t> keys, std::uint64_t cursor);

    std::uint64_t size() const { return keys_.size(); }
    std::uint64_t first() const { return cursor_; }
    std::uint64_t key(std::uint64_t position) const { return keys_[position]; }

    // The key's last position before `from`, and its first one at or behind it.
    struct Uses {
        std::optional<std::uint64_t> before, next;
    };
    Uses uses_around(std::uint64_t key, std::uint64_t from) const;

    std::optional<std::uint64_t> next_use(std::uint64_t key, std::uint64_t from) const {
        return uses_around(key, from).next;
    }
    // Returns the next position of the same key.
    std::optional<std::uint64_t> next_after(std::uint64_t position) const {
        const std::uint64_t next = next_[position];
        return next < size() ? std::optional(next) : std::nullopt;
    }

  private:
    std::vector<std::uint64_t> keys_;
    std::uint64_t cursor_;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> uses_;  // (key, position), sorted
    std::vector<std::uint64_t> next_;                            // by position; none: the size
};

}  // namespace hocket::cache
