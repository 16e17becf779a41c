#include "runtime/transport/window/process_memory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

// Identifies a file of the system: two descriptors that arrived by different ways may be of the same one.
using FileId = std::pair<dev_t, ino_t>;

FileId id_of(const Socket& file) {
    struct stat status {};
    fstat(file.fd(), &status);
    return {status.st_dev, status.st_ino};
}

// The existing objects of both kinds.
struct Known {
    std::mutex mutex;
    std::vector<std::weak_ptr<ProcessMemory>> own;  // the newest is last
    std::map<FileId, std::weak_ptr<const PeerMemory>> peers;
};

constexpr auto bells_interval = std::chrono::milliseconds(20);  // each check costs a few system calls

constexpr std::uint64_t room_for_users = 64;  // after the reserved bytes, in a cache line of its own

}  // namespace

std::shared_ptr<ProcessMemory> ProcessMemory::current() {
    Known& all = forks::own<Known>();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.own, [](const auto& memory) { return memory.expired(); });
    std::shared_ptr<ProcessMemory> newest = all.own.empty() ? nullptr : all.own.back().lock();
    bool takes_over = false;
    if (newest) {
        const std::lock_guard guard(newest->mutex_);
        newest->look_at_closed();
        if (newest->failed_ == 0) return newest;
        takes_over = newest->working_ == 0;
    }
    const std::shared_ptr<ProcessMemory> made(new ProcessMemory());
    if (takes_over) made->adopted_.take_over(newest->adopted_);
    all.own.push_back(made);
    return made;
}

bool ProcessMemory::restore_anywhere(void* memory) {
    Known& all = forks::own<Known>();
    const std::lock_guard lock(all.mutex);
    return std::any_of(all.own.begin(), all.own.end(), [&](const auto& one) {
        const std::shared_ptr<ProcessMemory> living = one.lock();
        return living && living->adopted_.restore(memory);
    });
}

ProcessMemory::ProcessMemory()
    : memory_(WindowMemory::make()),
      heap_(
          memory_.extents(), [this](Extent extent) { memory_.at(extent.begin, extent.bytes()); },
          [this](std::uint64_t offset, std::uint64_t bytes) { memory_.discard(offset, bytes); }),
      adopted_(memory_, heap_) {
    begin();
}

// A forked child may use its memory as it likes, but no other process sees what it writes.
void ProcessMemory::in_child() noexcept {
    adopted_.become_private_in_child();
    memory_.become_private_in_child();
}

ProcessMemory::Part ProcessMemory::open_part(std::uint64_t reserved, int users) {
    const std::lock_guard lock(mutex_);
    look_at_closed();
    Part part{++last_owner_, 0, nullptr, round_up(reserved + room_for_users, page_bytes)};
    const auto offset =
        heap_.allocate(part.bytes, part.bytes < huge_page_bytes ? page_bytes : huge_page_bytes, part.owner,
                       WindowHeap::Known::to_owners_peers);
    if (!offset)
        throw Error(Status::out_of_memory,
                    fmt::format("no room for {} bytes that a communicator needs: of this process's shared "
                                "memory, {}",
                                part.bytes, heap_.left()));
    part.offset = *offset;
    part.reserved = memory_.at(*offset, part.bytes);
    memory_.discard(part.offset, part.bytes);
    users_of(part.reserved, part.bytes) = static_cast<std::uint32_t>(users);
    ++working_;
    return part;
}

void ProcessMemory::retire(const Part& part) {
    heap_.quarantine(part.owner);
    const std::lock_guard lock(mutex_);
    ++failed_;
    --working_;
}

void ProcessMemory::close_part(const Part& part, bool has_failed, std::vector<AbstractAddress> bells) {
    const std::lock_guard lock(mutex_);
    if (!has_failed) --working_;
    closed_.push_back({part, has_failed, std::move(bells)});
    has_closed_ = true;
    look_at_closed();
}

// A peer that has ended did not call leave(); but its doorbell is gone, as that of a peer that has left is.
// Call with mutex_ held.
void ProcessMemory::look_at_closed() {
    const auto now = Clock::now();
    const bool looks_at_bells = now >= bells_due_;
    if (looks_at_bells) bells_due_ = now + bells_interval;
    std::erase_if(closed_, [&](const Closed& closed) {
        const Part& part = closed.part;
        const bool have_left = users_of(part.reserved, part.bytes).load(std::memory_order_acquire) == 0;
        if (!have_left && !(looks_at_bells && std::ranges::all_of(closed.bells, is_gone))) return false;
        heap_.release_all(part.owner);
        if (closed.has_failed) {
            heap_.end_quarantine(part.owner);
            --failed_;
        }
        return true;
    });
    has_closed_ = !closed_.empty();
}

void ProcessMemory::leave(std::byte* reserved, std::uint64_t bytes) {
    users_of(reserved, bytes).fetch_sub(1, std::memory_order_release);
}

std::atomic<std::uint32_t>& ProcessMemory::users_of(std::byte* reserved, std::uint64_t bytes) {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(reserved + bytes - room_for_users);
}

std::shared_ptr<const PeerMemory> PeerMemory::of(Socket file, std::uint64_t bytes) {
    Known& all = forks::own<Known>();
    const FileId id = id_of(file);
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.peers, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = all.peers.find(id); found != all.peers.end())
        if (auto mapped = found->second.lock()) return mapped;
    auto mapped = std::make_shared<PeerMemory>(std::move(file), bytes);
    all.peers[id] = mapped;
    return mapped;
}

// The file stays open, because more of it is mapped when the peer uses more.
PeerMemory::PeerMemory(Socket file, std::uint64_t bytes) : memory_(std::move(file), bytes) {
    begin();
}

}  // namespace hocket::transport
