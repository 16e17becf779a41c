#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/support/fake_cuda/fake.hpp"

namespace fake_cuda {
namespace {

struct Pinned {
    std::size_t bytes;
    int copies = 0;  // under way
};

std::mutex mutex;
std::map<const std::byte*, Allocation> allocations;
std::map<const std::byte*, Pinned> pinned;
std::condition_variable uses_ended;
std::set<int> owners_met;

template <typename Map>
auto find(Map& map, const void* memory) {
    const auto* at = static_cast<const std::byte*>(memory);
    auto place = map.upper_bound(at);
    if (place == map.begin()) return map.end();
    --place;
    return at < place->first + place->second.bytes ? place : map.end();
}

constexpr std::size_t page = 4096;
std::size_t place_of_common(std::size_t bytes) {
    return (bytes + page - 1) / page * page;
}

// Maps the file of an allocation. The caller holds no lock.
bool map(int file, Allocation& made) {
    void* hidden = mmap(nullptr, made.bytes, PROT_NONE, MAP_SHARED, file, 0);
    void* shadow = mmap(nullptr, made.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void* common = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                        static_cast<off_t>(place_of_common(made.bytes)));
    if (hidden == MAP_FAILED || shadow == MAP_FAILED || common == MAP_FAILED) return false;
    made.begin = static_cast<std::byte*>(hidden);
    made.shadow = static_cast<std::byte*>(shadow);
    made.common = static_cast<Common*>(common);  // zeros are its first state
    return true;
}

void unmap(const Allocation& allocation) {
    munmap(allocation.begin, allocation.bytes);
    munmap(allocation.shadow, allocation.bytes);
    munmap(allocation.common, page);
    if (allocation.file >= 0) close(allocation.file);
}

// A process that was killed copies no more, also while its parent has not asked for its end.
bool is_alive(int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return false;
    const std::size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.substr(name_end + 2, 1) != "Z";
}

bool is_used_elsewhere(const Common& common) {
    return std::any_of(std::begin(common.users), std::end(common.users),
                       [](const std::atomic<int>& user) { return user != 0 && is_alive(user); });
}

}  // namespace

int allocate(std::size_t bytes, Context& context, std::byte*& begin) {
    const int file = memfd_create("device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(place_of_common(bytes) + page)) != 0)
        return out_of_memory;
    Allocation made{};
    made.bytes = bytes;
    made.context = &context;
    made.file = file;
    if (!map(file, made)) return out_of_memory;
    begin = made.begin;
    static std::uint64_t allocated = 0;
    const std::lock_guard lock(mutex);
    made.number = ++allocated;
    allocations[begin] = made;
    return success;
}

bool release(std::byte* begin) {
    std::unique_lock lock(mutex);
    const auto place = allocations.find(begin);
    if (place == allocations.end() || place->second.file < 0) return false;
    uses_ended.wait(lock, [&] { return place->second.uses == 0; });
    place->second.common->is_freed = true;
    if (is_used_elsewhere(*place->second.common))
        fault("memory is freed while another process copies from or to it");
    unmap(place->second);
    allocations.erase(place);
    return true;
}

bool export_allocation(const void* begin, Handle& handle) {
    const std::lock_guard lock(mutex);
    const auto place = allocations.find(static_cast<const std::byte*>(begin));
    if (place == allocations.end() || place->second.file < 0) return false;
    const Allocation& allocation = place->second;
    struct stat state {};
    fstat(allocation.file, &state);
    handle = {getpid(),
              allocation.file,
              allocation.context->device,
              0,
              allocation.number,
              allocation.bytes,
              static_cast<std::uint64_t>(state.st_ino)};
    return true;
}

int open_exported(const Handle& handle, Context& context, std::byte*& begin) {
    if (handle.owner == getpid()) return invalid_context;
    {
        const std::lock_guard lock(mutex);
        for (auto& [at, allocation] : allocations)
            if (allocation.owner == handle.owner && allocation.number == handle.number) {
                ++allocation.opens;
                begin = allocation.begin;
                return success;
            }
    }
    const std::string path = "/proc/" + std::to_string(handle.owner) + "/fd/" + std::to_string(handle.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return invalid_value;  // freed, or its process is gone
    struct stat state {};
    fstat(file, &state);
    Allocation made{};
    made.bytes = handle.bytes;
    made.context = &context;
    made.file = -1;
    made.number = handle.number;
    made.opens = 1;
    made.owner = handle.owner;
    const bool is_it = state.st_ino == handle.inode && map(file, made);
    close(file);
    if (!is_it) return invalid_value;
    begin = made.begin;
    const std::lock_guard lock(mutex);
    allocations[begin] = made;
    return success;
}

int close_exported(const std::byte* begin) {
    std::unique_lock lock(mutex);
    const auto place = allocations.find(begin);
    if (place == allocations.end() || place->second.opens == 0) return invalid_value;
    if (--place->second.opens > 0) return success;
    uses_ended.wait(lock, [&] { return place->second.kernels == 0; });
    if (place->second.uses > 0) fault("memory of another process is closed under a copy");
    unmap(place->second);
    allocations.erase(place);
    return success;
}

std::size_t opened() {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::count_if(allocations.begin(), allocations.end(),
                                                  [](const auto& each) { return each.second.opens > 0; }));
}

std::size_t met() {
    const std::lock_guard lock(mutex);
    return owners_met.size();
}

void begin_use_elsewhere(const void* memory) {
    const std::lock_guard lock(mutex);
    const Allocation& allocation = find(allocations, memory)->second;
    if (allocation.opens == 0) return;
    owners_met.insert(allocation.owner);
    Common& common = *allocation.common;
    int none = 0;
    const bool found = std::any_of(std::begin(common.users), std::end(common.users), [&](auto& user) {
        none = 0;
        return user.compare_exchange_strong(none, getpid());
    });
    if (!found) fault("too many copies from or to one allocation for this driver");
    if (common.is_freed) fault("a copy from or to memory that another process has freed");
}

void give_uses_up() {
    const std::lock_guard lock(mutex);
    for (auto& [begin, allocation] : allocations)
        for (auto& user : allocation.common->users)
            if (user == getpid()) user = 0;
}

void end_use_elsewhere(const void* memory) {
    const std::lock_guard lock(mutex);
    const Allocation& allocation = find(allocations, memory)->second;
    if (allocation.opens == 0) return;
    int self = getpid();
    for (auto& user : allocation.common->users)
        if (user.compare_exchange_strong(self, 0))
            return;
        else
            self = getpid();
}

std::byte* shadow_of(const void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto place = find(allocations, memory);
    if (place == allocations.end()) return nullptr;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(memory) - place->first);
    return bytes <= place->second.bytes - offset ? place->second.shadow + offset : nullptr;
}

const Allocation* allocation_of(const void* memory) {
    const std::lock_guard lock(mutex);
    const auto place = find(allocations, memory);
    return place == allocations.end() ? nullptr : &place->second;
}

void use_allocation(const void* memory, int change) {
    const std::lock_guard lock(mutex);
    find(allocations, memory)->second.uses += change;
    if (change < 0) uses_ended.notify_all();
}

// Memory that is allocated while a kernel runs stays closed to it.
std::vector<std::byte*> open_memory(int device) {
    const std::lock_guard lock(mutex);
    std::vector<std::byte*> opened;
    for (auto& [begin, allocation] : allocations) {
        if (allocation.context->device != device) continue;
        ++allocation.uses;
        opened.push_back(allocation.begin);
        if (allocation.kernels++ == 0) mprotect(allocation.begin, allocation.bytes, PROT_READ | PROT_WRITE);
    }
    return opened;
}

void close_memory(const std::vector<std::byte*>& opened) {
    const std::lock_guard lock(mutex);
    for (std::byte* begin : opened) {
        Allocation& allocation = allocations.at(begin);
        if (--allocation.kernels == 0) mprotect(begin, allocation.bytes, PROT_NONE);
        --allocation.uses;
    }
    uses_ended.notify_all();
}

int pin(std::size_t bytes, void*& begin) {
    if (pinned_bytes() + bytes > pinned_most) return out_of_memory;
    begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) return out_of_memory;
    const std::lock_guard lock(mutex);
    pinned[static_cast<std::byte*>(begin)] = {bytes};
    return success;
}

// A real driver may wait for the copies here. Hocket must not rely on that, unless the driver has failed
// before.
int unpin(void* begin) {
    std::unique_lock lock(mutex);
    const auto place = pinned.find(static_cast<std::byte*>(begin));
    if (place == pinned.end()) fault("cuMemFreeHost of what cuMemHostAlloc did not give");
    if (place->second.copies > 0 && !any_call_has_failed()) fault("pinned memory is freed under a copy");
    uses_ended.wait(lock, [&] { return place->second.copies == 0; });
    munmap(begin, place->second.bytes);
    pinned.erase(place);
    return success;
}

bool is_pinned(const void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto place = find(pinned, memory);
    return place != pinned.end() &&
           static_cast<const std::byte*>(memory) + bytes <= place->first + place->second.bytes;
}

void use_pinned(const void* memory, int change) {
    const std::lock_guard lock(mutex);
    const auto place = find(pinned, memory);
    place->second.copies += change;
    if (change < 0) uses_ended.notify_all();
}

std::uint64_t pinned_bytes() {
    const std::lock_guard lock(mutex);
    std::uint64_t bytes = 0;
    for (const auto& [begin, block] : pinned) bytes += block.bytes;
    return bytes;
}

}  // namespace fake_cuda
