#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

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
std::vector<std::byte*> opened;  // for the kernel that runs

template <typename Map>
auto find(Map& map, const void* memory) {
    const auto* at = static_cast<const std::byte*>(memory);
    auto place = map.upper_bound(at);
    if (place == map.begin()) return map.end();
    --place;
    return at < place->first + place->second.bytes ? place : map.end();
}

}  // namespace

int allocate(std::size_t bytes, Context& context, std::byte*& begin) {
    const int file = memfd_create("device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return out_of_memory;
    void* hidden = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
    void* shadow = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (hidden == MAP_FAILED || shadow == MAP_FAILED) return out_of_memory;
    begin = static_cast<std::byte*>(hidden);
    const std::lock_guard lock(mutex);
    allocations[begin] = {begin, static_cast<std::byte*>(shadow), bytes, &context};
    return success;
}

bool release(std::byte* begin) {
    std::unique_lock lock(mutex);
    const auto place = allocations.find(begin);
    if (place == allocations.end()) return false;
    uses_ended.wait(lock, [&] { return place->second.uses == 0; });
    munmap(begin, place->second.bytes);
    munmap(place->second.shadow, place->second.bytes);
    allocations.erase(place);
    return true;
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
void open_memory(int device) {
    const std::lock_guard lock(mutex);
    for (auto& [begin, allocation] : allocations) {
        if (allocation.context->device != device) continue;
        ++allocation.uses;
        opened.push_back(allocation.begin);
        mprotect(allocation.begin, allocation.bytes, PROT_READ | PROT_WRITE);
    }
}

void close_memory() {
    const std::lock_guard lock(mutex);
    for (std::byte* begin : opened) {
        Allocation& allocation = allocations.at(begin);
        mprotect(begin, allocation.bytes, PROT_NONE);
        --allocation.uses;
    }
    opened.clear();
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

// A real driver may wait for the copies here. Nobody may rely on it, unless the driver has failed before.
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
