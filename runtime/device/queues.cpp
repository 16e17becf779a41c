#include "runtime/device/queues.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"

namespace hocket::device {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t block_unit = 64 * 1024;

// A block may be larger than needed, but not so much larger that other starts would lack it.
bool suits(std::uint64_t block, std::uint64_t bytes) {
    return block >= bytes && block / 2 <= std::max(bytes, block_unit);
}

}  // namespace

Queues::~Queues() {
    try {
        const InContext here(driver_, context_, "");
        const bool all_ended = copies_have_ended();
        if (all_ended) mappings_.close_all();  // this waits for all work of the device
        std::uint64_t left = 0;
        const auto let_go = [&](const Block& block) {
            if (all_ended)
                free(block);
            else
                left += block.bytes;
        };
        for (const Idle& idle : idle_) {
            let_go(idle.block);
            events_.insert(events_.end(), idle.fences.begin(), idle.fences.end());
        }
        if (!all_ended)
            for (auto& [key, kernel] : kernels_) (void)kernel.release();  // its code may still run
        kernels_.clear();
        // Other processes may be using work areas of starts that failed, and say nothing when they are done.
        for (const Block& block : lost_) block.is_of_device ? void(left += block.bytes) : let_go(block);
        for (const Event event : events_) driver_.event_destroy(event);
        for (const Stream stream : streams_) driver_.stream_destroy(stream);
        if (left > 0)
            log_line(
                "hocket: copies of device {}, or by other processes, may not have ended; {} bytes of memory "
                "are left to them",
                device_, left);
    } catch (...) {  // the context is gone, and everything in it
    }
}

// A failure counts as an end: copies in a broken context do nothing more.
bool Queues::copies_have_ended() noexcept {
    if (has_endless_) return false;
    const auto until = std::chrono::steady_clock::now() + copies_end_within;
    const auto is_busy = [this](Stream stream) {
        return driver_.stream_query(stream) == CUDA_ERROR_NOT_READY;
    };
    for (;;) {
        if (std::none_of(streams_.begin(), streams_.end(), is_busy)) return true;
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(1ms);
    }
}

int Queues::attribute(int which, const std::string& doing) const {
    int handle = 0, value = 0;
    driver_.require(driver_.device_get(&handle, device_), "cuDeviceGet", doing);
    driver_.require(driver_.device_get_attribute(&value, which, handle), "cuDeviceGetAttribute", doing);
    return value;
}

int Queues::processors(const std::string& doing) const {
    return attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, doing);
}

int Queues::capability(const std::string& doing) const {
    return 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, doing) +
           attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, doing);
}

Stream Queues::take_stream(const std::string& doing) {
    for (Stream& stream : streams_) {
        if (driver_.stream_query(stream) != CUDA_SUCCESS) continue;
        std::swap(stream, streams_.back());
        const Stream taken = streams_.back();
        streams_.pop_back();
        return taken;
    }
    streams_.reserve(streams_.size() + 1);  // to give it back must not fail
    Stream made = nullptr;
    // A non-blocking stream: events, not the program's default stream, order its work.
    driver_.require(driver_.stream_create(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate", doing);
    return made;
}

Event Queues::take_event(const std::string& doing) {
    if (events_.empty()) {
        Event made = nullptr;
        driver_.require(driver_.event_create(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate", doing);
        return made;
    }
    const Event event = events_.back();
    events_.pop_back();
    return event;
}

Block Queues::take_block(std::uint64_t bytes, const std::string& doing, bool of_device) {
    Idle* best = nullptr;
    for (Idle& idle : idle_)
        if (idle.block.is_of_device == of_device && suits(idle.block.bytes, bytes) &&
            (!best || idle.block.bytes < best->block.bytes) && has_ended(idle))
            best = &idle;
    if (best) {
        const Block block = best->block;
        std::swap(*best, idle_.back());
        idle_.pop_back();
        return block;
    }
    idle_.reserve(idle_.size() + 1);  // to give it back must not fail
    const std::uint64_t more = grown(bytes, of_device);
    if (more > bytes) try {
            return make_block(more, doing, of_device);
        } catch (const Error&) {  // the smaller block may still fit
        }
    return make_block(bytes, doing, of_device);
}

Block Queues::make_block(std::uint64_t bytes, const std::string& doing, bool of_device) const {
    const std::uint64_t rounded = (bytes + block_unit - 1) / block_unit * block_unit;
    if (of_device) {
        DevicePointer memory = 0;
        driver_.require(driver_.memory_alloc(&memory, rounded), "cuMemAlloc", doing);
        return {reinterpret_cast<std::byte*>(memory), rounded, true};
    }
    void* memory = nullptr;
    driver_.require(driver_.host_alloc(&memory, rounded, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc", doing);
    return {static_cast<std::byte*>(memory), rounded};
}

void Queues::free(const Block& block) const {
    if (block.is_of_device)
        driver_.memory_free(reinterpret_cast<std::uintptr_t>(block.begin));
    else
        driver_.host_free(block.begin);
}

LoadedKernel& Queues::kernel(const std::string& key, const std::function<KernelImage()>& make_image,
                             const std::string& doing) {
    if (const auto known = kernels_.find(key); known != kernels_.end()) return *known->second;
    if (const auto refused = refused_kernels_.find(key); refused != refused_kernels_.end())
        throw refused->second;
    try {
        auto loaded = std::make_unique<LoadedKernel>(driver_, make_image(), doing);
        return *kernels_.emplace(key, std::move(loaded)).first->second;
    } catch (const Error& error) {
        if (error.status() != Status::out_of_memory) refused_kernels_.emplace(key, error);
        throw;
    }
}

void Queues::give_back(const Block& block, std::vector<Event> fences) {
    idle_.push_back({block, std::move(fences)});
}

bool Queues::has_ended(Idle& idle) {
    for (; !idle.fences.empty(); idle.fences.pop_back()) {
        if (driver_.event_query(idle.fences.back()) != CUDA_SUCCESS) return false;
        events_.push_back(idle.fences.back());
    }
    return true;
}

// Blocks that have become too small are not freed at a start, because freeing them waits for all work of the
// device. So a new block is at least half as large again as the largest of the smaller ones:
// however slowly starts grow, all blocks that are too small for them are together no larger than twice the
// last.
std::uint64_t Queues::grown(std::uint64_t bytes, bool of_device) const {
    std::uint64_t smaller = 0;
    for (const Idle& idle : idle_)
        if (idle.block.is_of_device == of_device && idle.block.bytes < bytes)
            smaller = std::max(smaller, idle.block.bytes);
    return std::max(bytes, smaller + smaller / 2);
}

}  // namespace hocket::device
