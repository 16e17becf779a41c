// Memory for weights and updates that other processes of the host can read. Elements for these processes are
// not written into a connection; the receiver copies them from here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/forks.hpp"
#include "runtime/transport/window/heap.hpp"
#include "runtime/transport/window/memory.hpp"

namespace hocket::params {

// Elements that no longer change, or that are still being written by their only holder.
using Block = std::shared_ptr<std::byte>;

// Identifies the memory by process and descriptor. Only processes of the same user on the same host can open
// it; the others get the elements over the connection.
struct MemoryName {
    std::int64_t process;
    int descriptor;
    std::uint64_t bytes;
    // The first word of the memory, to detect a process with the same number on another host.
    std::uint64_t token;
};

// Thread-safe. Lives as long as its last block.
class Memory final : public std::enable_shared_from_this<Memory>, private forks::Inherited {
  public:
    static std::shared_ptr<Memory> make();  // throws Error(out_of_memory)
    ~Memory() { end(); }

    // The contents are unspecified. Throws Error(out_of_memory).
    Block allocate(std::uint64_t bytes);
    const MemoryName& name() const { return name_; }
    std::uint64_t offset_of(const std::byte* block) const { return memory_.offset_of(block, 1).value(); }

    // Elements lent over a connection stay lent while this number is at the lease's place; the reader checks
    // that after it has copied. Each connection has its own number, so a place can be reused.
    class Lease {
      public:
        explicit Lease(Memory& memory);
        ~Lease();
        std::uint64_t place() const;
        std::uint64_t number() const { return number_; }

      private:
        Memory& memory_;
        Block block_;
        std::uint64_t number_;
    };

  private:
    Memory();
    void in_child() noexcept override { memory_.unmap(); }

    transport::WindowMemory memory_;
    transport::WindowHeap heap_;
    MemoryName name_;
};

// The memory of another process, for reading. Not thread-safe: use from one thread at a time.
class OthersMemory final : private forks::Inherited {
  public:
    // Returns null if the memory cannot be opened: it is on another host, or another user's.
    static std::shared_ptr<const OthersMemory> open(const MemoryName& name, std::uint64_t lease_place,
                                                    std::uint64_t lease_number);
    ~OthersMemory() { end(); }

    // Returns the address of the bytes at this offset; null if this process has no addresses left for them,
    // in which case read() still works. Throws transport::ProtocolError if there is no such range.
    std::byte* at(std::uint64_t offset, std::uint64_t bytes) const;
    void read(std::byte* to, std::uint64_t offset, std::uint64_t bytes) const;
    // Returns false if the memory is no longer lent: data read from it before the call are invalid.
    bool is_lent() const;

  private:
    OthersMemory(transport::Socket file, std::uint64_t bytes, std::uint64_t lease_place,
                 std::uint64_t lease_number);
    void in_child() noexcept override { memory_.unmap(); }

    transport::WindowMemory memory_;
    const std::atomic<std::uint64_t>& lease_;
    const std::uint64_t lease_number_;
};

}  // namespace hocket::params
