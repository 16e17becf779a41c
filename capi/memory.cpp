#include <fmt/format.h>

#include "capi/handles.hpp"

using namespace hocket;

namespace {

void check_communicator(const hkt_comm* comm, const char* function) {
    if (comm == nullptr) capi::refuse(fmt::format("{}: comm is null", function));
}

}  // namespace

extern "C" {

hkt_status hkt_mem_alloc(hkt_comm* comm, size_t bytes, void** memory) {
    return capi::guarded(comm, [&] {
        check_communicator(comm, "hkt_mem_alloc");
        if (memory == nullptr) capi::refuse("hkt_mem_alloc: memory is null; pass the address of a pointer");
        *memory = nullptr;
        if (bytes > 0)
            *memory = comm->engine->connections().window().allocate(bytes, 4096,
                                                                    transport::Window::Known::to_any_peers);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_mem_free(hkt_comm* comm, void* memory) {
    return capi::guarded(comm, [&] {
        check_communicator(comm, "hkt_mem_free");
        comm->engine->connections().window().release(memory);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_mem_register(hkt_comm* comm, void* memory, size_t bytes) {
    return capi::guarded(comm, [&] {
        check_communicator(comm, "hkt_mem_register");
        comm->engine->connections().window().adopt(memory, bytes);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_mem_deregister(hkt_comm* comm, void* memory) {
    return capi::guarded(comm, [&] {
        check_communicator(comm, "hkt_mem_deregister");
        comm->engine->connections().window().restore(memory);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_mem_is_shared(hkt_comm* comm, const void* memory, size_t bytes, int* is_shared) {
    return capi::guarded(comm, [&] {
        check_communicator(comm, "hkt_mem_is_shared");
        if (is_shared == nullptr)
            capi::refuse("hkt_mem_is_shared: is_shared is null; pass the address of an int");
        const transport::Window& window = comm->engine->connections().window();
        *is_shared = window.offset_of(memory, bytes) || window.staging_buffer_for(memory, bytes) ? 1 : 0;
        return HKT_SUCCESS;
    });
}

}  // extern "C"
