#include <fmt/format.h>

#include <cstdint>

#include "capi/handles.hpp"
#include "capi/vocabulary.hpp"

using namespace hocket;

namespace {

// message: complete except for the data and their size. buffer: a send only reads it.
hkt_status start_message(const char* function, engine::MessageStart message, void* buffer, std::size_t count,
                         hkt_type type, hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse(fmt::format("{}: comm is null", function));
        if (request != nullptr) *request = nullptr;
        const DataType row = capi::type_of(type);
        const std::size_t element = element_size(row);
        if (count > PTRDIFF_MAX / element)
            capi::refuse(fmt::format("a count of {} {} elements does not fit in memory (at most {})", count,
                                     name_of(row), PTRDIFF_MAX / element));
        if (buffer == nullptr && count > 0) capi::refuse("buffer is null, but the count is not 0");
        if (reinterpret_cast<std::uintptr_t>(buffer) % element != 0 && count > 0)
            capi::refuse(capi::not_aligned("buffer", row));
        message.data = static_cast<std::byte*>(buffer);
        message.bytes = count * element;
        message.element = static_cast<std::uint32_t>(element);
        if (request == nullptr) {
            comm->engine->run(message);
        } else {
            engine::MessageRequest& started = comm->engine->start(message);
            started.user = comm;
            *request = capi::handle(started);
        }
        return HKT_SUCCESS;
    });
}

}  // namespace

extern "C" {

hkt_status hkt_send(const void* buffer, size_t count, hkt_type type, int32_t peer, int32_t tag,
                    hkt_comm* comm, hkt_request** request) {
    return start_message("hkt_send", {.direction = engine::Direction::send, .peer = peer, .tag = tag},
                         const_cast<void*>(buffer), count, type, comm, request);
}

hkt_status hkt_recv(void* buffer, size_t count, hkt_type type, int32_t peer, int32_t tag, hkt_comm* comm,
                    hkt_request** request) {
    return start_message("hkt_recv", {.direction = engine::Direction::receive, .peer = peer, .tag = tag},
                         buffer, count, type, comm, request);
}

hkt_status hkt_recv_any(void* buffer, size_t count, hkt_type type, int32_t tag, int32_t* source,
                        hkt_comm* comm, hkt_request** request) {
    return start_message(
        "hkt_recv_any",
        {.direction = engine::Direction::receive, .peer = engine::any_rank, .tag = tag, .source = source},
        buffer, count, type, comm, request);
}

}  // extern "C"
