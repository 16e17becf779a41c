#include "runtime/params/links/memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/random.hpp"
#include "runtime/params/links/copy.hpp"
#include "runtime/transport/net/frame.hpp"

namespace hocket::params {
namespace {

constexpr std::uint64_t header_bytes = transport::page_bytes;
constexpr std::uint64_t alignment = 64;

std::atomic<std::uint64_t>& word_at(const transport::WindowMemory& memory, std::uint64_t place) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory.at(place, sizeof(std::uint64_t)));
}

std::vector<transport::Extent> behind_header(std::vector<transport::Extent> extents) {
    extents.front().begin += header_bytes;
    return extents;
}

std::uint64_t random_number() {
    std::uint64_t number;
    std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
    return number;
}

// Starts at a random number: a lease's place may hold elements later, which will not equal that number.
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
    : memory_(transport::WindowMemory::make()),
      // Freed pages are kept: the next round needs them again, and returning them would take longer than a
      // copy.
      heap_(
          behind_header(memory_.extents()),
          [this](transport::Extent extent) { memory_.at(extent.begin, extent.bytes()); },
          [](std::uint64_t, std::uint64_t) {}),
      name_{getpid(), memory_.file().fd(), memory_.bytes(), random_number()} {
    word_at(memory_, 0) = name_.token;
    begin();
}

Block Memory::allocate(std::uint64_t bytes) {
    const auto offset = heap_.allocate(bytes, alignment);
    if (!offset)
        throw Error(Status::out_of_memory,
                    fmt::format("there is no room for {} bytes more of weights and updates: {}", bytes,
                                heap_.left()));
    return Block(memory_.at(*offset, bytes),
                 [self = shared_from_this(), at = *offset](std::byte*) { self->heap_.release(at); });
}

Memory::Lease::Lease(Memory& memory)
    : memory_(memory), block_(memory.allocate(alignment)), number_(next_lease()) {
    word_at(memory_.memory_, place()).store(number_, std::memory_order_release);
}

// The fence orders the end of the lease before any later write to the lent elements.
Memory::Lease::~Lease() {
    word_at(memory_.memory_, place()).store(0, std::memory_order_seq_cst);
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
        if (lease_place % alignment != 0) return nullptr;
        std::unique_ptr<OthersMemory> opened(
            new OthersMemory(std::move(file), name.bytes, lease_place, lease_number));
        const bool is_it = word_at(opened->memory_, 0) == name.token;
        return is_it && opened->is_lent() ? std::move(opened) : nullptr;
    } catch (const Error&) {  // the file is another one, or there are no addresses left
        return nullptr;
    }
}

OthersMemory::OthersMemory(transport::Socket file, std::uint64_t bytes, std::uint64_t lease_place,
                           std::uint64_t lease_number)
    : memory_(std::move(file), bytes), lease_(word_at(memory_, lease_place)), lease_number_(lease_number) {
    begin();
}

std::byte* OthersMemory::at(std::uint64_t offset, std::uint64_t bytes) const {
    try {
        return memory_.at(offset, bytes);
    } catch (const Error& error) {
        if (error.status() == Status::out_of_memory) return nullptr;
        throw transport::ProtocolError("it referred to an address outside of its shared memory");
    }
}

void OthersMemory::read(std::byte* to, std::uint64_t offset, std::uint64_t bytes) const {
    if (const std::byte* const from = at(offset, bytes)) return copy_bytes(to, from, bytes);
    for (std::uint64_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(memory_.file().fd(), to + done, bytes - done, static_cast<off_t>(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR))
            throw transport::ProtocolError("it named memory that cannot be read");
        if (got > 0) done += static_cast<std::uint64_t>(got);
    }
}

bool OthersMemory::is_lent() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return lease_.load(std::memory_order_acquire) == lease_number_;
}

}  // namespace hocket::params
