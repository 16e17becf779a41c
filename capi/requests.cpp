#include <fmt/format.h>

#include "capi/handles.hpp"

using namespace hocket;

namespace {

Request& checked(hkt_request* request, const char* function) {
    if (request == nullptr) capi::refuse(fmt::format("{}: the request is null", function));
    return *reinterpret_cast<Request*>(request);
}

// The communicator that keeps the request's error text; null if the calling thread keeps it.
hkt_comm* comm_of(hkt_request* request) {
    if (request == nullptr) return nullptr;
    const auto& of = *reinterpret_cast<Request*>(request);
    return of.type == Request::Type::batch ? nullptr : static_cast<hkt_comm*>(of.user);
}

engine::Execution& execution(Request& request) {
    return static_cast<engine::Execution&>(request);
}
engine::MessageRequest& message(Request& request) {
    return static_cast<engine::MessageRequest&>(request);
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
        switch (started.type) {
            case Request::Type::collective:
                comm->engine->wait(execution(started));
                break;
            case Request::Type::message:
                comm->engine->wait(message(started));
                break;
            case Request::Type::batch:
                static_cast<hkt_cache*>(started.user)->cache->wait(batch(started));
        }
        return HKT_SUCCESS;
    });
}

hkt_status hkt_test(hkt_request* request) {
    hkt_comm* const comm = comm_of(request);
    return capi::guarded(comm, [&] {
        Request& started = checked(request, "hkt_test");
        const auto has_ended = [&] {
            switch (started.type) {
                case Request::Type::collective:
                    return comm->engine->test(execution(started));
                case Request::Type::message:
                    return comm->engine->test(message(started));
                case Request::Type::batch:
                    break;
            }
            return batch(started).test();
        };
        return has_ended() ? HKT_SUCCESS : HKT_IN_PROGRESS;
    });
}

}  // extern "C"
