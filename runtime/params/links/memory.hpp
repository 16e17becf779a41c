// Where a process of the parameter service has weights and updates: memory that other processes of its host
// can read. What goes to them is not written into a connection; they copy it from here.
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

// Elements that do not change any more, or are still being written by the only one who has them.
using Block = std::shared_ptr<std::byte>;

// Which process, and which of its descriptors. Who may open that is a process of the same user on the same
// host; the others get the elements by the connection.
struct MemoryName {
    std::int64_t process;
    int descriptor;
    std::uint64_t bytes;
    std::uint64_t token;  // what stands at the beginning: another host has a process of the same number, too
};

// Thread-safe. Lives as long as the last block.
class Memory final : public std::enable_shared_from_this<Memory>, private forks::Inherited {
  public:
    static std::shared_ptr<Memory> make();  // throws Error(out_of_memory)
    ~Memory() { end(); }

    // Its contents are unspecified. Throws Error(out_of_memory).
    Block allocate(std::uint64_t bytes);
    const MemoryName& name() const { return name_; }
    std::uint64_t offset_of(const std::byte* block) const { return memory_.offset_of(block, 1).value(); }

    // What is lent over a connection is lent as long as this number stands at its place; the reader looks
    // after it has copied. Each connection has a number of its own, so a place can be used again.
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

// The memory of another process, to be read. One thread at a time.
class OthersMemory final : private forks::Inherited {
  public:
    // Null if it cannot be opened: it is elsewhere, or of another user.
    static std::shared_ptr<const OthersMemory> open(const MemoryName& name, std::uint64_t lease_place,
                                                    std::uint64_t lease_number);
    ~OthersMemory() { end(); }

    // Where the bytes from this offset on are; null if this process has no addresses left for them: then they
    // can be read() all the same. Throws transport::ProtocolError if there is no such place.
    std::byte* at(std::uint64_t offset, std::uint64_t bytes) const;
    void read(std::byte* to, std::uint64_t offset, std::uint64_t bytes) const;
    // To be asked after it was read: false if what was read is worth nothing.
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
