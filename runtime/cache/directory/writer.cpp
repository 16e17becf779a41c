#include "runtime/cache/directory/writer.hpp"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/cache/segments/descriptor.hpp"

namespace hocket::cache {
namespace {

constexpr unsigned most_batches = 4;
constexpr std::size_t most_payloads = 64;
constexpr std::uint64_t most_bytes = 4 << 20;

bool are_neighbours(const Room& a, const Room& b) {
    return a.segment == b.segment && a.offset + a.reserved == b.offset;
}

}  // namespace

struct Writer::Turn {
    Payload& payload;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) { payload.waiting = handle; }
    void await_resume() const {}
};

Task<bool> Writer::write(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes) {
    Payload payload{key, memory, bytes};
    waiting_.push_back(&payload);
    if (batches_ < most_batches) {
        ++batches_;
        loop_.spawn(write_waiting());
    }
    co_await Turn{payload};
    co_return payload.is_written;
}

Task<> Writer::write_waiting() {
    while (!waiting_.empty()) {
        const std::vector<Payload*> batch = take_some();
        const auto call = [&] { write_all(batch); };
        try {
            co_await loop_.on_worker(call);
        } catch (const Error&) {  // no thread can be started: the payloads are not written this time
        }
        for (Payload* const payload : batch) payload->waiting.resume();
    }
    --batches_;
}

std::vector<Writer::Payload*> Writer::take_some() {
    std::vector<Payload*> batch;
    for (std::uint64_t bytes = 0; !waiting_.empty() && batch.size() < most_payloads && bytes < most_bytes;) {
        batch.push_back(waiting_.front());
        bytes += waiting_.front()->bytes;
        waiting_.pop_front();
    }
    return batch;
}

// Runs on a worker.
void Writer::write_all(std::span<Payload* const> batch) noexcept {
    for (Payload* const payload : batch) {
        try {
            payload->room = directory_.reserve(payload->key, payload->bytes);
        } catch (const std::exception&) {  // out of memory: the payload is not written this time
        }
    }
    for (std::size_t begin = 0, end; begin < batch.size(); begin = end) {
        end = begin + 1;
        if (!batch[begin]->room) continue;
        while (end < batch.size() && batch[end]->room &&
               are_neighbours(*batch[end - 1]->room, *batch[end]->room))
            ++end;
        const auto run = batch.subspan(begin, end - begin);
        try {
            write_neighbours(run);
        } catch (const std::exception&) {
            for (Payload* const payload : run)
                if (payload->room) directory_.abandon(*std::exchange(payload->room, std::nullopt), ENOMEM);
        }
    }
}

void Writer::write_neighbours(std::span<Payload* const> run) {
    std::vector<iovec> parts;
    std::vector<PageBuffer> copies;  // used where the disk's unit is larger than the arena's
    std::uint64_t all = 0;
    for (const Payload* const payload : run) {
        const Room& room = *payload->room;
        std::byte* from = payload->memory.data();
        if (room.reserved > payload->memory.size()) {
            from = copies.emplace_back(room.reserved).data();
            std::memcpy(from, payload->memory.data(), room.bytes);
        }
        // Otherwise bytes of other samples would be written as well.
        std::memset(from + room.bytes, 0, room.reserved - room.bytes);
        parts.push_back({from, room.reserved});
        all += room.reserved;
    }
    const Room& first = *run.front()->room;
    const std::int64_t written = files_.write(first.fd, parts, first.offset);
    for (Payload* const payload : run) {
        if (written == static_cast<std::int64_t>(all))
            payload->is_written = directory_.commit(*payload->room, payload->memory.first(payload->bytes));
        else
            directory_.abandon(*payload->room, written < 0 ? static_cast<int>(-written) : ENOSPC);
        payload->room.reset();  // if an exception comes earlier, the caller abandons the room
    }
}

}  // namespace hocket::cache
