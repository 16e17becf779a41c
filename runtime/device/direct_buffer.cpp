#include "runtime/device/direct_buffer.hpp"

#include <fmt/format.h>

namespace hocket::device {
DirectBuffer::DirectBuffer(const Buffers& buffers, const Place& place, const void* memory, const char* name,
                           const char* verb)
    : buffers_(buffers),
      memory_(memory),
      doing_(fmt::format("copying {} ({} on device {}) {} another process's device", name, memory,
                         place.device, verb)),
      queues_(buffers.devices.queues(buffers.driver, place)),
      copies_(queues_, doing_) {}

std::unique_ptr<DirectBuffer> DirectBuffer::make(const Buffers& buffers, const Place& place,
                                                 const void* memory, const char* name, const char* verb,
                                                 std::optional<std::uint64_t> exported) {
    std::unique_ptr<DirectBuffer> made(new DirectBuffer(buffers, place, memory, name, verb));
    if (exported) {
        const InContext here(buffers.driver, made->queues_.context(), made->doing_);
        made->exported_ = export_memory(buffers.driver, memory, *exported, made->doing_);
        if (!made->exported_) return nullptr;
    }
    made->follow_stream();
    return made;
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

bool DirectBuffer::open(const Exported& from, std::uint64_t bytes) {
    const auto begin = copies_.open(from);
    if (begin) piece_ = {*begin, bytes};
    return begin.has_value();
}

void DirectBuffer::copy() {
    copies_.post(address_of(memory_), piece_->from, piece_->bytes);
    copies_.fence();
}

bool DirectBuffer::has_copied() {
    if (has_copied_) return true;
    if (copies_.reached() == 0) return false;
    copies_.end();
    return has_copied_ = true;
}

std::string DirectBuffer::awaited() const {
    return doing_ + (awaits_stream() ? ": it waits for work that was on the caller's stream before"
                                     : ": the copy has not ended");
}

}  // namespace hocket::device
