#include "runtime/device/direct_buffer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace hocket::device {
namespace {

using namespace std::chrono_literals;

constexpr auto copies_end_within = 1s;

DevicePointer address_of(const void* memory) {
    return static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(memory));
}

}  // namespace

DirectBuffer::DirectBuffer(const Buffers& buffers, const Place& place, void* memory, std::uint64_t bytes,
                           const char* verb)
    : buffers_(buffers),
      place_(place),
      memory_(memory),
      bytes_(bytes),
      doing_(fmt::format("copying buffer ({} on device {}) {} another process's device", memory, place.device,
                         verb)),
      queues_(buffers.devices.queues(buffers.driver, place)) {}

std::unique_ptr<DirectBuffer> DirectBuffer::to_send(const Buffers& buffers, const Place& place, void* memory,
                                                    std::uint64_t bytes) {
    std::unique_ptr<DirectBuffer> made(new DirectBuffer(buffers, place, memory, bytes, "to"));
    {
        const InContext here(buffers.driver, made->queues_.context(), made->doing_);
        made->exported_ = export_memory(buffers.driver, memory, bytes, made->doing_);
    }
    if (!made->exported_) return nullptr;
    made->follow_stream();
    return made;
}

std::unique_ptr<DirectBuffer> DirectBuffer::to_receive(const Buffers& buffers, const Place& place,
                                                       void* memory, std::uint64_t bytes) {
    std::unique_ptr<DirectBuffer> made(new DirectBuffer(buffers, place, memory, bytes, "from"));
    made->follow_stream();
    return made;
}

DirectBuffer::~DirectBuffer() {
    settle();
    if (from_) queues_.mappings().give_back(*from_);
    if (copies_) queues_.give_back(copies_);
}

void DirectBuffer::follow_stream() {
    Queues* callers = nullptr;
    {
        const InContext here(buffers_.driver, queues_.context(), doing_);
        callers = &buffers_.devices.queues_of(buffers_.stream, queues_);
    }
    point_.emplace(*callers, buffers_.stream,
                   "waiting on the device for the caller's stream before " + doing_);
}

bool DirectBuffer::open(const Exported& from) {
    const InContext here(buffers_.driver, queues_.context(), doing_);
    from_ = queues_.mappings().open(from, doing_);
    offset_ = from.offset;
    return from_ != nullptr;
}

void DirectBuffer::copy() {
    const InContext here(buffers_.driver, queues_.context(), doing_);
    copies_ = queues_.take_stream(doing_);
    buffers_.driver.require(
        buffers_.driver.copy(address_of(memory_), from_->begin + offset_, bytes_, copies_), "cuMemcpyAsync",
        doing_);
}

// The stream has had nothing but this copy since it was taken.
bool DirectBuffer::has_copied() {
    if (has_copied_) return true;
    const InContext here(buffers_.driver, queues_.context(), doing_);
    const int result = buffers_.driver.stream_query(copies_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    buffers_.driver.require(result, "cuStreamQuery", doing_);
    end_copy();
    return true;
}

void DirectBuffer::end_copy() {
    has_copied_ = true;
    queues_.give_back(copies_);
    copies_ = nullptr;
    queues_.mappings().give_back(*from_);
    from_ = nullptr;
}

bool DirectBuffer::settle() noexcept {
    if (!copies_) return true;
    if (!from_) return false;
    try {
        const InContext here(buffers_.driver, queues_.context(), doing_);
        const auto until = std::chrono::steady_clock::now() + copies_end_within;
        while (buffers_.driver.stream_query(copies_) == CUDA_ERROR_NOT_READY) {
            if (std::chrono::steady_clock::now() >= until) {
                from_ = nullptr;  // it counts as used
                return false;
            }
            std::this_thread::sleep_for(1ms);
        }
        end_copy();
    } catch (...) {  // the context is gone, and the copy with it
    }
    return true;
}

std::unique_ptr<Staging> DirectBuffer::stage() const {
    StagedBuffer buffer{place_, memory_, {{0, bytes_}}, "buffer"};
    return exported_ ? Staging::begin(buffers_, std::move(buffer), std::nullopt, &*point_)
                     : Staging::begin(buffers_, std::nullopt, std::move(buffer), &*point_);
}

bool DirectBuffer::is_waiting() const {
    if (exported_) return !point_->is_known_to_have_come();
    return from_ != nullptr;
}

std::string DirectBuffer::awaited() const {
    return doing_ + (point_->is_known_to_have_come()
                         ? ": the copy has not ended"
                         : ": it waits for work that was on the caller's stream before");
}

}  // namespace hocket::device
