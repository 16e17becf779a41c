#include "runtime/device/direct_buffer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace hocket::device {
DirectBuffer::DirectBuffer(const Buffers& buffers, const Place& place, const void* memory, const char* name,
                           const char* verb)
    : buffers_(buffers),
      memory_(memory),
      doing_(fmt::format("copying {} ({} on device {}) {} another process's device", name, memory,
                         place.device, verb)),
      queues_(buffers.devices.queues(buffers.driver, place)) {}

std::unique_ptr<DirectBuffer> DirectBuffer::to_send(const Buffers& buffers, const Place& place,
                                                    const void* memory, std::uint64_t bytes,
                                                    const char* name) {
    std::unique_ptr<DirectBuffer> made(new DirectBuffer(buffers, place, memory, name, "to"));
    {
        const InContext here(buffers.driver, made->queues_.context(), made->doing_);
        made->exported_ = export_memory(buffers.driver, memory, bytes, made->doing_);
    }
    if (!made->exported_) return nullptr;
    made->follow_stream();
    return made;
}

std::unique_ptr<DirectBuffer> DirectBuffer::to_receive(const Buffers& buffers, const Place& place,
                                                       void* memory, const char* name) {
    std::unique_ptr<DirectBuffer> made(new DirectBuffer(buffers, place, memory, name, "from"));
    made->follow_stream();
    return made;
}

DirectBuffer::~DirectBuffer() {
    if (settle()) give_pieces_back();
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

bool DirectBuffer::open(const Exported& from, Stretch stretch, std::uint64_t to) {
    const InContext here(buffers_.driver, queues_.context(), doing_);
    pieces_.reserve(pieces_.size() + 1);
    Mappings::Mapping* const mapping = queues_.mappings().open(from, doing_);
    if (mapping)
        pieces_.push_back(
            {mapping, mapping->begin + from.offset + stretch.begin, stretch.end - stretch.begin, to});
    return mapping != nullptr;
}

void DirectBuffer::copy() {
    const InContext here(buffers_.driver, queues_.context(), doing_);
    copies_ = queues_.take_stream(doing_);
    for (const Piece& piece : pieces_)
        buffers_.driver.require(
            buffers_.driver.copy(address_of(memory_) + piece.to, piece.from, piece.bytes, copies_),
            "cuMemcpyAsync", doing_);
}

// The stream has carried only these copies since it was taken.
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
    give_pieces_back();
}

void DirectBuffer::give_pieces_back() {
    for (const Piece& piece : pieces_)
        if (piece.mapping) queues_.mappings().give_back(*piece.mapping);
    pieces_.clear();
}

bool DirectBuffer::settle() noexcept {
    if (!copies_ || is_lost_) return !is_lost_;
    try {
        const InContext here(buffers_.driver, queues_.context(), doing_);
        const auto until = std::chrono::steady_clock::now() + copies_end_within;
        while (buffers_.driver.stream_query(copies_) == CUDA_ERROR_NOT_READY) {
            if (std::chrono::steady_clock::now() >= until) {
                is_lost_ = true;
                return false;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        end_copy();
    } catch (...) {  // the context is gone, and so are the copies
    }
    return true;
}

std::string DirectBuffer::awaited() const {
    return doing_ + (awaits_stream() ? ": it waits for work that was on the caller's stream before"
                                     : ": the copy has not ended");
}

}  // namespace hocket::device
