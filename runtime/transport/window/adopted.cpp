#include "runtime/transport/window/adopted.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/transport/window/mapped_areas.hpp"

namespace hocket::transport {
namespace {

constexpr std::uintptr_t highest = UINTPTR_MAX / 2;  // addresses above belong to the kernel

[[noreturn]] void refuse_memory(const void* memory, std::size_t bytes, const std::string& why) {
    throw Error(Status::invalid_argument,
                fmt::format("cannot share the {} bytes at {}: {}", bytes, memory, why));
}

bool is_private_anonymous(const MappedArea& area) {
    return area.permissions == "rw-p" &&
           (area.name.empty() || area.name == "[heap]" || area.name.starts_with("[anon"));
}

bool overlaps_own_stack(std::uintptr_t begin, std::uintptr_t end) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
    void* stack = nullptr;
    std::size_t bytes = 0;
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
    const auto lowest = reinterpret_cast<std::uintptr_t>(stack);
    return begin < lowest + bytes && lowest < end;
}

// A memcpy that the address sanitizer does not check, because some bytes of the outer pages are poisoned.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) void copy_pages(void* to, const void* from,
                                                                               std::size_t bytes) {
    auto* target = static_cast<std::uint64_t*>(to);
    const auto* source = static_cast<const volatile std::uint64_t*>(from);
    for (std::size_t i = 0; i < bytes / sizeof *target; ++i) target[i] = source[i];
}

}  // namespace

WindowAdopted::~WindowAdopted() {
    for (const auto& [begin, range] : ranges_) try {
            if (is_still_mapped(range)) move_back(range);
        } catch (const Error&) {  // the memory stays shared then, which is harmless
        }
}

void WindowAdopted::adopt(void* memory, std::size_t bytes) {
    const auto begin = reinterpret_cast<Address>(memory);
    if (bytes == 0 || bytes > highest || begin > highest)
        refuse_memory(memory, bytes, "not a range of memory");
    const Address end = begin + bytes;
    Range range{begin, end, round_up(begin, page_bytes), end / page_bytes * page_bytes, 0};
    if (!range.moves()) range.first_page = range.last_page = range.first_touched();

    const std::lock_guard one_at_a_time(changing_);
    if (register_again(begin, end)) return;
    require_apart(range);
    require_plain(range);
    const auto offset = heap_.allocate(range.end_touched() - range.first_touched(), page_bytes);
    if (!offset)
        throw Error(Status::out_of_memory,
                    fmt::format("cannot share the {} bytes at {}: of this process's shared memory, {}", bytes,
                                memory, heap_.left()));
    range.offset = *offset;
    Ranges single{{begin, range}};
    if (const int error = move_in(single.extract(begin))) {
        heap_.release(*offset);
        throw Error(Status::out_of_memory, fmt::format("cannot share the {} bytes at {}: mmap: {}", bytes,
                                                       memory, error_text(error)));
    }
}

// Allocates nothing, because an allocation could make the copy stale. Returns an errno, or 0.
int WindowAdopted::move_in(Ranges::node_type added) {
    const Range& range = added.mapped();
    const auto no_fork = forks::no_fork();
    void* const pages = reinterpret_cast<void*>(range.first_page);
    if (range.moves()) {
        copy_pages(place_of(range) + (range.first_page - range.first_touched()), pages,
                   range.bytes_that_move());
        if (mmap(pages, range.bytes_that_move(), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, memory_.file().fd(),
                 static_cast<off_t>(offset_in_file(range))) == MAP_FAILED)
            return errno;
    }
    const std::lock_guard lock(mutex_);
    ranges_.insert(std::move(added));
    count_.fetch_add(1, std::memory_order_release);
    return 0;
}

// Returns the place in the slice of the page in which the memory begins.
std::byte* WindowAdopted::place_of(const Range& range) const {
    return memory_.at(range.offset, range.end_touched() - range.first_touched());
}

bool WindowAdopted::register_again(Address begin, Address end) {
    const auto known = ranges_.find(begin);
    if (known == ranges_.end() || known->second.end != end || !is_still_mapped(known->second)) return false;
    ++known->second.registered;
    return true;
}

bool WindowAdopted::restore(void* memory) {
    const std::lock_guard one_at_a_time(changing_);
    const auto found = ranges_.find(reinterpret_cast<Address>(memory));
    if (found == ranges_.end()) return false;
    if (found->second.registered > 1) {
        --found->second.registered;
        return true;
    }
    const bool mapped = is_still_mapped(found->second);
    forget(found, mapped);
    if (!mapped)
        throw Error(Status::invalid_argument,
                    fmt::format("the memory at {} was freed or unmapped while it was "
                                "shared; it must be unregistered first",
                                memory));
    return true;
}

// Call with changing_ held.
void WindowAdopted::forget(Ranges::iterator found, bool is_mapped) {
    const std::uint64_t offset = found->second.offset;
    {
        const auto no_fork = forks::no_fork();
        if (is_mapped) move_back(found->second);
        const std::lock_guard lock(mutex_);
        ranges_.erase(found);
        count_.fetch_sub(1, std::memory_order_release);
    }
    heap_.release(offset);
}

void WindowAdopted::take_over(WindowAdopted& other) {
    const std::lock_guard one_at_a_time(other.changing_);
    for (const auto& [begin, range] : std::map(other.ranges_)) try {
            const bool mapped = other.is_still_mapped(range);
            other.forget(other.ranges_.find(begin), mapped);
            if (!mapped) continue;
            adopt(reinterpret_cast<void*>(begin), range.end - begin);
            const std::lock_guard alone(changing_);
            ranges_.at(begin).registered = range.registered;
        } catch (const Error&) {  // operations copy private memory
        }
}

// Returns the range that holds all of the memory; null if none does. Without bytes, the memory must begin
// before the range's end. Call with mutex_ held.
const WindowAdopted::Range* WindowAdopted::range_with(Address begin, std::size_t bytes) const {
    const auto after = ranges_.upper_bound(begin);
    if (after == ranges_.begin()) return nullptr;
    const Range& range = std::prev(after)->second;
    return begin >= range.end || bytes > range.end - begin ? nullptr : &range;
}

std::optional<std::uint64_t> WindowAdopted::find(const void* memory, std::size_t bytes) const {
    const auto begin = reinterpret_cast<Address>(memory);
    const std::shared_lock lock(mutex_);
    const Range* range = range_with(begin, bytes);
    if (!range || begin < range->first_page || begin + bytes > range->last_page) return std::nullopt;
    return range->offset_of(begin);
}

std::optional<StagingBuffer> WindowAdopted::staging_buffer_for(const void* memory, std::size_t bytes) const {
    if (is_empty()) return std::nullopt;
    const auto begin = reinterpret_cast<Address>(memory);
    const std::shared_lock lock(mutex_);
    const Range* range = range_with(begin, bytes);
    if (!range || !range->has_private_pages()) return std::nullopt;
    const Address shared_begin = std::clamp(range->first_page, begin, begin + bytes),
                  shared_end = std::clamp(range->last_page, begin, begin + bytes);
    StagingBuffer result{place_of(*range) + (begin - range->first_touched()), 0, 0};
    if (shared_begin < shared_end) {
        result.shared_begin = shared_begin - begin;
        result.shared_end = shared_end - begin;
    }
    return result;
}

// Makes only system calls, because this is a child of a process with threads. Where a private mapping cannot
// be made, no memory is better than the parent's.
void WindowAdopted::become_private_in_child() noexcept {
    for (const auto& [begin, range] : ranges_) {
        if (!range.moves()) continue;
        void* const pages = reinterpret_cast<void*>(range.first_page);
        if (mmap(pages, range.bytes_that_move(), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, memory_.file().fd(),
                 static_cast<off_t>(offset_in_file(range))) == MAP_FAILED)
            munmap(pages, range.bytes_that_move());
    }
}

void WindowAdopted::require_apart(const Range& range) const {
    for (const auto& [begin, other] : ranges_)
        if (range.begin < other.end && other.begin < range.end)
            refuse_memory(
                reinterpret_cast<void*>(range.begin), range.end - range.begin,
                fmt::format("they overlap the {} bytes at {}, which are shared already; register both as "
                            "one range",
                            other.end - other.begin, reinterpret_cast<void*>(other.begin)));
}

void WindowAdopted::require_plain(const Range& range) {
    const auto no = [&](const std::string& why) {
        refuse_memory(reinterpret_cast<void*>(range.begin), range.end - range.begin, why);
    };
    const std::vector<MappedArea> areas = mapped_areas(range.first_touched(), range.end_touched());
    if (!covers(areas, range.first_touched(), range.end_touched())) no("not all of them are mapped");
    if (overlaps_own_stack(range.begin, range.end)) no("they are on this thread's stack");
    for (const MappedArea& area : areas) {
        if (area.name.find(WindowMemory::name) != std::string::npos)
            no("they are shared memory already: a block that a communicator has allocated, or registered "
               "before "
               "a communicator has failed, with another one; deregister it first");
        if (!is_private_anonymous(area))
            no(fmt::format(
                "only writable memory of this process alone can be made shared (from malloc, new, or "
                "an anonymous mmap), but they reach into '{}' ({})",
                area.name.empty() ? "unnamed memory" : area.name, area.permissions));
    }
}

bool WindowAdopted::is_still_mapped(const Range& range) const {
    if (!range.moves()) return true;
    struct stat status {};
    fstat(memory_.file().fd(), &status);
    const std::vector<MappedArea> areas = mapped_areas(range.first_page, range.last_page);
    return covers(areas, range.first_page, range.last_page) &&
           std::all_of(areas.begin(), areas.end(), [&](const MappedArea& area) {
               return area.inode == status.st_ino &&
                      area.file_offset - area.begin == offset_in_file(range) - range.first_page;
           });
}

void WindowAdopted::move_back(const Range& range) const {
    if (!range.moves()) return;
    const std::size_t bytes = range.bytes_that_move();
    void* const copy =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy != MAP_FAILED) {
        std::memcpy(copy, place_of(range) + (range.first_page - range.first_touched()), bytes);
        if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   reinterpret_cast<void*>(range.first_page)) != MAP_FAILED)
            return;
    }
    const int error = errno;
    if (copy != MAP_FAILED) munmap(copy, bytes);
    throw Error(Status::out_of_memory, fmt::format("cannot make the {} shared bytes at {} private again: {}",
                                                   range.end - range.begin,
                                                   reinterpret_cast<void*>(range.begin), error_text(error)));
}

}  // namespace hocket::transport
