// Writes payloads to the disk in the background. Payloads that wait at the same time are written together: a
// worker reserves space for all of them, and adjacent ones are written at once.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/io/files.hpp"
#include "runtime/cache/io/loop.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class Writer {
  public:
    // All arguments must outlive this object. The writes run on the loop's own workers.
    Writer(Loop& loop, const Files& files, Directory& directory)
        : loop_(loop), files_(files), directory_(directory) {}

    // Returns true once the payload is on the disk; the directory records a failure. memory: the block that
    // begins with the payload. The bytes behind the payload are overwritten with zeros as far as the disk's
    // unit requires.
    Task<bool> write(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes);

  private:
    struct Payload {
        std::uint64_t key;
        std::span<std::byte> memory;
        std::uint64_t bytes;
        std::optional<Room> room = std::nullopt;
        bool is_written = false;
        std::coroutine_handle<> waiting = {};
    };
    struct Turn;

    Task<> write_waiting();
    std::vector<Payload*> take_some();
    void write_all(std::span<Payload* const> batch) noexcept;
    void write_neighbours(std::span<Payload* const> run);

    Loop& loop_;
    const Files& files_;
    Directory& directory_;
    std::deque<Payload*> waiting_;
    unsigned batches_ = 0;  // being written
};

}  // namespace hocket::cache
