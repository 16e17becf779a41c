#include "runtime/params/links/memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "runtime/error.hpp"
#include "runtime/net/frame.hpp"
#include "runtime/random.hpp"

namespace hocket::params {
namespace {

// As many such memories, of this process and others, have room among a process's addresses.
constexpr int expected_neighbours = 8;
constexpr std::uint64_t header_bytes = transport::page_bytes;
constexpr std::uint64_t alignment = 64;

std::atomic<std::uint64_t>& word_at(std::byte* base, std::uint64_t place) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(base + place);
}

std::uint64_t random_number() {
    std::uint64_t number;
    std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
    return number;
}

// Its place may have elements later, and those are no such number.
std::uint64_t next_lease() {
    static std::atomic<std::uint64_t> last{random_number()};
    return ++last;
}

}  // namespace

// ---- Own -------------------------------------------------------------------------------------------------

std::shared_ptr<Memory> Memory::make() {
    return std::shared_ptr<Memory>(new Memory());
}

Memory::Memory()
    : memory_(transport::WindowMemory::make(expected_neighbours, header_bytes)),
      // What is free in one round is needed in the next: to give its pages back would take longer than to
      // copy.
      heap_(header_bytes, memory_.bytes(), [](std::uint64_t, std::uint64_t) {}),
      name_{getpid(), memory_.file().fd(), memory_.bytes(), random_number()} {
    word_at(memory_.base(), 0) = name_.token;
    begin();
}

Block Memory::allocate(std::uint64_t bytes) {
    const auto offset = heap_.allocate(bytes, alignment);
    if (!offset)
        throw Error(Status::out_of_memory,
                    fmt::format("there is no room for {} bytes more of weights and updates", bytes));
    return Block(memory_.base() + *offset,
                 [self = shared_from_this(), at = *offset](std::byte*) { self->heap_.release(at); });
}

Memory::Lease::Lease(Memory& memory)
    : memory_(memory), block_(memory.allocate(alignment)), number_(next_lease()) {
    word_at(memory_.memory_.base(), place()).store(number_, std::memory_order_release);
}

// Whatever is written over the lent elements is written after this.
Memory::Lease::~Lease() {
    word_at(memory_.memory_.base(), place()).store(0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint64_t Memory::Lease::place() const {
    return memory_.offset_of(block_.get());
}

// ---- Others' ---------------------------------------------------------------------------------------------

std::shared_ptr<const OthersMemory> OthersMemory::open(const MemoryName& name, std::uint64_t lease_place,
                                                       std::uint64_t lease_number) {
    const std::string path = fmt::format("/proc/{}/fd/{}", name.process, name.descriptor);
    transport::Socket file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.is_open()) return nullptr;
    try {
        std::unique_ptr<OthersMemory> opened(new OthersMemory(
            transport::WindowMemory(std::move(file), name.bytes), lease_place, lease_number));
        opened->memory_.close_file();
        const bool is_it = word_at(opened->memory_.base(), 0) == name.token;
        const bool has_place = lease_place % alignment == 0 && lease_place < name.bytes;
        return is_it && has_place && opened->is_lent() ? std::move(opened) : nullptr;
    } catch (const Error&) {  // it is some other file, or there are no addresses left
        return nullptr;
    }
}

OthersMemory::OthersMemory(transport::WindowMemory memory, std::uint64_t lease_place,
                           std::uint64_t lease_number)
    : memory_(std::move(memory)), lease_place_(lease_place), lease_number_(lease_number) {
    begin();
}

std::byte* OthersMemory::at(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > memory_.bytes() || bytes > memory_.bytes() - offset)
        throw transport::ProtocolError("it names memory that it does not have");
    return memory_.base() + offset;
}

bool OthersMemory::is_lent() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return word_at(memory_.base(), lease_place_).load(std::memory_order_acquire) == lease_number_;
}

}  // namespace hocket::params
