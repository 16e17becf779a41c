#include <fmt/format.h>

#include "capi/handles.hpp"

using namespace hocket;

namespace {

Request& checked(hkt_request* request, const char* function) {
    if (request == nullptr) capi::refuse(fmt::format("{}: the request is null", function));
    return *reinterpret_cast<Request*>(request);
}

// Whose error text it is: null if it is the calling thread's.
hkt_comm* comm_of(hkt_request* request) {
    if (request == nullptr) return nullptr;
    const auto& of = *reinterpret_cast<Request*>(request);
    return of.type == Request::Type::collective ? static_cast<hkt_comm*>(of.user) : nullptr;
}

engine::Execution& execution(Request& request) {
    return static_cast<engine::Execution&>(request);
}
cache::Batch& batch(Request& request) {
    return static_cast<cache::Batch&>(request);
}

}  // namespace

extern "C" {

hkt_status hkt_wait(hkt_request* request) {
    hkt_comm* const comm = comm_of(request);
    return capi::guarded(comm, [&] {
        Request& started = checked(request, "hkt_wait");
        if (started.type == Request::Type::collective)
            comm->engine->wait(execution(started));
        else
            static_cast<hkt_cache*>(started.user)->cache->wait(batch(started));
        return HKT_SUCCESS;
    });
}

hkt_status hkt_test(hkt_request* request) {
    hkt_comm* const comm = comm_of(request);
    return capi::guarded(comm, [&] {
        Request& started = checked(request, "hkt_test");
        const bool done = started.type == Request::Type::collective ? comm->engine->test(execution(started))
                                                                    : batch(started).test();
        return done ? HKT_SUCCESS : HKT_IN_PROGRESS;
    });
}

}  // extern "C"
