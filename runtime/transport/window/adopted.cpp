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
#include "runtime/transport/window/shared_by_use.hpp"

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

// Memory that is shared by use stays so: the program may be writing to it at this moment.
WindowAdopted::~WindowAdopted() {
    for (const auto& [begin, range] : ranges_) try {
            if (range.registered > 0 && is_still_mapped(range)) move_back(range);
        } catch (const Error&) {  // the memory stays shared then, which is harmless
        }
    FilesSharedByUse::of_process().remove(file_);
}

WindowAdopted::Range WindowAdopted::range_of(const void* memory, std::size_t bytes) {
    const auto begin = reinterpret_cast<Address>(memory);
    if (bytes == 0 || bytes > highest || begin > highest)
        refuse_memory(memory, bytes, "not a range of memory");
    const Address end = begin + bytes;
    return {begin, end, round_up(begin, page_bytes), end / page_bytes * page_bytes, 0};
}

void WindowAdopted::adopt(void* memory, std::size_t bytes) {
    Range range = range_of(memory, bytes);
    if (!range.moves()) range.first_page = range.last_page = range.first_touched();
    const std::lock_guard one_at_a_time(changing_);
    forget_gone_in(range);
    if (register_again(range)) return;
    require_apart(range);
    require_plain(range);
    take_in(range);
}

// The first page stays private, so that the program cannot enlarge the mapping with mremap(2): it would see
// the next block of the slice.
bool WindowAdopted::share_by_use(void* memory, std::size_t bytes) {
    try {
        if (!obstacle_to_sharing_by_use().empty() || !present_obstacle_to_sharing_by_use().empty())
            return false;
        Range range = range_of(memory, bytes);
        range.first_page = round_up(range.begin + 1, page_bytes);
        range.registered = 0;
        if (!range.moves()) return false;
        const std::lock_guard one_at_a_time(changing_);
        forget_gone_in(range);
        if (range_with(range.begin, bytes)) return true;  // another thread was faster
        require_apart(range);
        require_plain(range);
        FilesSharedByUse::of_process().add(memory_, file_);
        take_in(range);
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

// Takes the place of ranges that are shared by use. Call with changing_ held.
void WindowAdopted::take_in(Range range) {
    const auto refuse = [&](const std::string& why) {
        throw Error(Status::out_of_memory,
                    fmt::format("cannot share the {} bytes at {}: {}", range.end - range.begin,
                                reinterpret_cast<void*>(range.begin), why));
    };
    const auto offset = heap_.allocate(range.end_touched() - range.first_touched(), page_bytes);
    if (!offset) refuse("of this process's shared memory, " + heap_.left());
    range.offset = *offset;
    Ranges single{{range.begin, range}};
    if (const int error = move_in(single.extract(range.begin))) {
        heap_.release(*offset);
        refuse("mmap: " + error_text(error));
    }
}

// Allocates nothing before the memory has moved, because an allocation could make the copy stale. Returns an
// errno, or 0.
int WindowAdopted::move_in(Ranges::node_type added) {
    const Range range = added.mapped();
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
    // Peers may still read the blocks of those whose place this range takes, so they are not used again.
    std::erase_if(ranges_, [&](const auto& entry) { return entry.second.overlaps(range); });
    ranges_.insert(std::move(added));
    count_.store(static_cast<int>(ranges_.size()), std::memory_order_release);
    return 0;
}

// Returns the place in the slice of the page in which the memory begins.
std::byte* WindowAdopted::place_of(const Range& range) const {
    return memory_.at(range.offset, range.end_touched() - range.first_touched());
}

bool WindowAdopted::register_again(const Range& range) {
    const auto known = ranges_.find(range.begin);
    if (known == ranges_.end() || known->second.end != range.end || !is_still_mapped(known->second))
        return false;
    const auto no_fork = forks::no_fork();  // a child looks at this number
    const std::lock_guard lock(mutex_);
    ++known->second.registered;
    return true;
}

bool WindowAdopted::restore(void* memory) {
    const std::lock_guard one_at_a_time(changing_);
    const auto found = ranges_.find(reinterpret_cast<Address>(memory));
    if (found == ranges_.end() || found->second.registered == 0) return false;
    if (found->second.registered > 1) {
        --found->second.registered;
        return true;
    }
    const bool mapped = is_still_mapped(found->second);
    const std::uint64_t offset = found->second.offset;
    forget(found, mapped);
    heap_.release(offset);
    if (!mapped)
        throw Error(Status::invalid_argument,
                    fmt::format("the memory at {} was freed or unmapped while it was "
                                "shared; it must be unregistered first",
                                memory));
    return true;
}

// moves_back: makes the memory private again. Call with changing_ held.
void WindowAdopted::forget(Ranges::iterator found, bool moves_back) {
    const auto no_fork = forks::no_fork();
    if (moves_back) move_back(found->second);
    const std::lock_guard lock(mutex_);
    ranges_.erase(found);
    count_.store(static_cast<int>(ranges_.size()), std::memory_order_release);
}

void WindowAdopted::take_over(WindowAdopted& other) {
    const std::lock_guard one_at_a_time(other.changing_);
    for (const auto& [begin, range] : std::map(other.ranges_)) try {
            const bool moves_back = range.registered > 0 && other.is_still_mapped(range);
            other.forget(other.ranges_.find(begin), moves_back);
            if (range.registered == 0) continue;
            other.heap_.release(range.offset);
            if (!moves_back) continue;
            adopt(reinterpret_cast<void*>(begin), range.end - begin);
            const std::lock_guard alone(changing_);
            ranges_.at(begin).registered = range.registered;
        } catch (const Error&) {  // operations copy private memory
        }
    FilesSharedByUse::of_process().let_go(other.file_);
}

// ---- Memory that is shared by use ---------------------------------------------------------------------

bool WindowAdopted::lists(const void* memory, std::size_t bytes) const {
    if (is_empty()) return false;
    const std::shared_lock lock(mutex_);
    return range_with(reinterpret_cast<Address>(memory), bytes) != nullptr;
}

bool WindowAdopted::is_believed(const Range& range) const {
    if (range.registered > 0) return true;
    Mapping mapping{};
    for (Address at = range.first_page; at < range.last_page; at = mapping.end)
        if (ask_for_mapping(Asked::that_holds, at, mapping) != Answer::found || !mapping.is_shared ||
            !mapping.shows(file_, range.offset_of(at), at))
            return false;
    return true;
}

void WindowAdopted::forget_if_gone(Address begin) {
    const std::lock_guard one_at_a_time(changing_);
    const auto found = ranges_.find(begin);
    if (found == ranges_.end() || is_believed(found->second)) return;
    const Range range = found->second;
    unsure_.push_back({range.offset, range.end_touched() - range.first_touched()});
    forget(found, false);
    give_back_unmapped();
}

// Call with changing_ held.
void WindowAdopted::forget_gone_in(const Range& range) {
    for (auto next = ranges_.begin(); next != ranges_.end();) {
        const auto found = next++;
        const Range known = found->second;
        if (!known.overlaps(range) || is_believed(known)) continue;
        unsure_.push_back({known.offset, known.end_touched() - known.first_touched()});
        forget(found, false);
    }
    if (!unsure_.empty()) give_back_unmapped();
}

// Gives the heap those blocks of forgotten memory that are mapped nowhere in this process, beside the slice
// itself: the program may have moved a mapping, or kept a part. Call with changing_ held.
void WindowAdopted::give_back_unmapped() {
    std::vector<Block> mapped;
    if (!for_file_mappings(own_maps(), [&](const Mapping& mapping) {
            const std::uint64_t bytes = mapping.end - mapping.begin;
            if (mapping.file == file_ && !memory_.offset_of(reinterpret_cast<void*>(mapping.begin), bytes))
                mapped.push_back({mapping.file_offset, bytes});
        }))
        return;
    std::erase_if(unsure_, [&](const Block& block) {
        const bool is_mapped = std::any_of(mapped.begin(), mapped.end(), [&](const Block& other) {
            return block.offset < other.offset + other.bytes && other.offset < block.offset + block.bytes;
        });
        return !is_mapped && heap_.release(block.offset);
    });
}

// ---- Look-ups -----------------------------------------------------------------------------------------

// Returns the range that holds all of the memory; null if none does. Without bytes, the memory must begin
// before the range's end. Call with mutex_ held.
const WindowAdopted::Range* WindowAdopted::range_with(Address begin, std::size_t bytes) const {
    const auto after = ranges_.upper_bound(begin);
    if (after == ranges_.begin()) return nullptr;
    const Range& range = std::prev(after)->second;
    return begin >= range.end || bytes > range.end - begin ? nullptr : &range;
}

std::optional<std::uint64_t> WindowAdopted::find(const void* memory, std::size_t bytes) {
    const auto begin = reinterpret_cast<Address>(memory);
    std::shared_lock lock(mutex_);
    const Range* range = range_with(begin, bytes);
    if (!range || begin < range->first_page || begin + bytes > range->last_page) return std::nullopt;
    if (is_believed(*range)) return range->offset_of(begin);
    const Address gone = range->begin;
    lock.unlock();
    forget_if_gone(gone);
    return std::nullopt;
}

std::optional<StagingBuffer> WindowAdopted::staging_buffer_for(const void* memory, std::size_t bytes) {
    if (is_empty()) return std::nullopt;
    const auto begin = reinterpret_cast<Address>(memory);
    std::shared_lock lock(mutex_);
    const Range* range = range_with(begin, bytes);
    if (!range || !range->has_private_pages()) return std::nullopt;
    if (!is_believed(*range)) {
        const Address gone = range->begin;
        lock.unlock();
        forget_if_gone(gone);
        return std::nullopt;
    }
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
        if (!range.moves() || range.registered == 0) continue;
        void* const pages = reinterpret_cast<void*>(range.first_page);
        if (mmap(pages, range.bytes_that_move(), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, memory_.file().fd(),
                 static_cast<off_t>(offset_in_file(range))) == MAP_FAILED)
            munmap(pages, range.bytes_that_move());
    }
}

void WindowAdopted::require_apart(const Range& range) const {
    for (const auto& [begin, other] : ranges_)
        if (range.overlaps(other) && (range.registered == 0 || other.registered > 0))
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
        if (may_replace(range, area.begin)) continue;
        if (area.name.find(WindowMemory::name) != std::string::npos)
            no("they are shared memory already: a block that a communicator has allocated, or registered "
               "before a communicator has failed, with another one; deregister it first");
        if (!is_private_anonymous(area))
            no(fmt::format(
                "only writable memory of this process alone can be made shared (from malloc, new, or "
                "an anonymous mmap), but they reach into '{}' ({})",
                area.name.empty() ? "unnamed memory" : area.name, area.permissions));
    }
}

// Returns true for a mapping that is shared by use, or is left over from that. To registered memory it gives
// way, but to memory that is shared by use only if no operation uses it.
bool WindowAdopted::may_replace(const Range& range, Address begin) {
    const auto use = FilesSharedByUse::of_process().use_at(begin);
    return use == FilesSharedByUse::Use::left ||
           (use == FilesSharedByUse::Use::by_operations && range.registered > 0);
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
