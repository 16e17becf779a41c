#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include "capi/handles.hpp"
#include "capi/waiting.hpp"
#include "runtime/base/environment.hpp"

using namespace hocket;

namespace {

using Clock = std::chrono::steady_clock;

Request& checked(hkt_request* request, const char* function) {
    if (request == nullptr) capi::refuse(fmt::format("{}: the request is null", function));
    return capi::request_of(request);
}

// Returns a description of a request that belongs to no communicator; null if it belongs to one.
const char* what_without_comm(const Request& request) {
    if (request.type == Request::Type::batch) return "a batch of a cache";
    if (request.type == Request::Type::parameters) return "a push or pull of parameters";
    return nullptr;
}

// Returns the communicator that keeps the request's error text; null if the calling thread keeps it.
hkt_comm* comm_of(hkt_request* request) {
    if (request == nullptr) return nullptr;
    const Request& of = capi::request_of(request);
    return what_without_comm(of) ? nullptr : static_cast<hkt_comm*>(of.user);
}

engine::Execution& execution(Request& request) {
    return static_cast<engine::Execution&>(request);
}
capi::JoinedRequest& joined(Request& request) {
    return static_cast<capi::JoinedRequest&>(request);
}
engine::MessageRequest& message(Request& request) {
    return static_cast<engine::MessageRequest&>(request);
}
cache::Batch& batch(Request& request) {
    return static_cast<cache::Batch&>(request);
}
cache::Cache& cache_of(const Request& request) {
    const auto& handle = *static_cast<const hkt_cache*>(request.user);
    handle.require_own("cache");
    return *handle.cache;
}
params::ParameterRequest& of_parameters(Request& request) {
    return static_cast<params::ParameterRequest&>(request);
}
hkt_params& params_of(const Request& request) {
    auto& handle = *static_cast<hkt_params*>(request.user);
    handle.require_own("parameter worker");
    return handle;
}

hkt_status wait(const char* function, Request& started, Clock::time_point until) {
    if (started.type == Request::Type::batch)
        return cache_of(started).wait(batch(started), until) ? HKT_SUCCESS : HKT_IN_PROGRESS;
    if (started.type == Request::Type::parameters) {
        const hkt_params& params = params_of(started);
        const auto wait_until = [&](Clock::time_point until) {
            return params.client->wait(&of_parameters(started), until);
        };
        return capi::wait_unless_interrupted(function, params.interruption, until, wait_until)
                   ? HKT_SUCCESS
                   : HKT_IN_PROGRESS;
    }
    hkt_comm* const comm = static_cast<hkt_comm*>(started.user);
    const auto wait_until = [&](Clock::time_point until) {
        switch (started.type) {
            case Request::Type::collective:
                return comm->engine->progress().wait(execution(started), until);
            case Request::Type::message:
                return comm->engine->progress().wait(message(started), until);
            case Request::Type::joined:
                return capi::JoinedRequests::wait(joined(started), *comm->engine, until);
            case Request::Type::batch:
            case Request::Type::parameters:
                break;
        }
        std::abort();
    };
    return capi::wait_unless_interrupted(function, comm->interruption, until, wait_until) ? HKT_SUCCESS
                                                                                          : HKT_IN_PROGRESS;
}

Clock::time_point end_of(const char* function, std::int64_t timeout_ms) {
    const std::int64_t limit = check_timeout(fmt::format("{}: timeout_ms", function), timeout_ms, 0);
    return Clock::now() + std::chrono::milliseconds(limit);
}

// Returns the communicator of several requests, collectives and messages. places: their places in the
// caller's list.
hkt_comm* comm_of_all(const char* function, const std::vector<Request*>& requests,
                      const std::vector<std::size_t>& places) {
    if (requests.empty()) capi::refuse(fmt::format("{}: there is no request", function));
    for (std::size_t i = 0; i < requests.size(); ++i) {
        if (const char* const what = what_without_comm(*requests[i]))
            capi::refuse(fmt::format("{}: requests[{}] is {}", function, places[i], what));
        if (requests[i]->type == Request::Type::joined)
            capi::refuse(fmt::format("{}: requests[{}] is of several operations (hkt_request_join) itself",
                                     function, places[i]));
        if (requests[i]->user != requests[0]->user)
            capi::refuse(fmt::format("{}: requests[{}] and requests[{}] are of two communicators", function,
                                     places[0], places[i]));
    }
    return static_cast<hkt_comm*>(requests[0]->user);
}

// Returns the communicator that will tell the program when the request has ended.
hkt_comm& comm_that_tells(hkt_request* request, const char* function) {
    Request& started = checked(request, function);
    if (const char* const what = what_without_comm(started))
        capi::refuse(fmt::format("{}: the request is {}; hkt_test and hkt_wait_for tell whether it has ended",
                                 function, what));
    return *static_cast<hkt_comm*>(started.user);
}

void tell_end(hkt_comm& comm, Request& request, engine::Endings::Way way) {
    if (request.type == Request::Type::joined)
        comm.joined.tell_end(joined(request), *comm.engine, std::move(way));
    else
        comm.engine->progress().tell_end(request, std::move(way));
}

// Returns a duplicate descriptor of the program's eventfd.
transport::Socket own_eventfd(int eventfd) {
    constexpr std::string_view expected = "anon_inode:[eventfd]";
    char kind[expected.size() + 1];
    const ssize_t length = readlink(fmt::format("/proc/self/fd/{}", eventfd).c_str(), kind, sizeof kind);
    if (length < 0 || std::string_view(kind, static_cast<std::size_t>(length)) != expected)
        capi::refuse(fmt::format("hkt_request_eventfd: the descriptor {} is {}; make one with eventfd(2)",
                                 eventfd, length < 0 ? "not open" : "no eventfd"));
    const int own = fcntl(eventfd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        throw Error(Status::out_of_memory,
                    fmt::format("hkt_request_eventfd: cannot have a further descriptor: {}",
                                transport::error_text(errno)));
    return transport::Socket(own);
}

}  // namespace

extern "C" {

hkt_status hkt_wait(hkt_request* request) {
    return capi::guarded(comm_of(request), [&] {
        return wait("hkt_wait", checked(request, "hkt_wait"), Clock::time_point::max());
    });
}

hkt_status hkt_wait_for(hkt_request* request, int64_t timeout_ms) {
    return capi::guarded(comm_of(request), [&] {
        return wait("hkt_wait_for", checked(request, "hkt_wait_for"), end_of("hkt_wait_for", timeout_ms));
    });
}

hkt_status hkt_wait_any(hkt_request* const* requests, size_t count, int64_t timeout_ms, size_t* index) {
    return capi::guarded([&] {
        if (requests == nullptr || index == nullptr) capi::refuse("hkt_wait_any: requests or index is null");
        *index = count;
        std::vector<Request*> given;
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < count; ++i) {
            if (requests[i] == nullptr) continue;
            given.push_back(&checked(requests[i], "hkt_wait_any"));
            places.push_back(i);
        }
        const Clock::time_point until = end_of("hkt_wait_any", timeout_ms);
        return capi::guarded(comm_of_all("hkt_wait_any", given, places), [&] {
            const hkt_comm& comm = *static_cast<hkt_comm*>(given[0]->user);
            const auto first = capi::wait_unless_interrupted(
                "hkt_wait_any", comm.interruption, until,
                [&](Clock::time_point next) { return comm.engine->progress().wait_any(given, next); },
                "the operations go on, and can be waited for again");
            if (first) *index = places[*first];
            return first ? HKT_SUCCESS : HKT_IN_PROGRESS;
        });
    });
}

hkt_status hkt_request_join(hkt_request* const* requests, size_t count, hkt_request** request) {
    return capi::guarded([&] {
        const char* const function = "hkt_request_join";
        if (request == nullptr)
            capi::refuse(fmt::format("{}: request is null; pass the address of an hkt_request*", function));
        *request = nullptr;
        if (requests == nullptr) capi::refuse(fmt::format("{}: requests is null", function));
        std::vector<Request*> parts;
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < count; ++i) {
            if (requests[i] == nullptr) capi::refuse(fmt::format("{}: requests[{}] is null", function, i));
            parts.push_back(&capi::request_of(requests[i]));
            places.push_back(i);
        }
        hkt_comm* const comm = comm_of_all(function, parts, places);
        return capi::guarded(comm, [&] {
            capi::JoinedRequest& made = comm->joined.join(parts);
            made.user = comm;
            *request = capi::handle(made);
            return HKT_SUCCESS;
        });
    });
}

hkt_status hkt_request_eventfd(hkt_request* request, int eventfd) {
    return capi::guarded(comm_of(request), [&] {
        hkt_comm& comm = comm_that_tells(request, "hkt_request_eventfd");
        tell_end(comm, capi::request_of(request), own_eventfd(eventfd));
        return HKT_SUCCESS;
    });
}

hkt_status hkt_request_callback(hkt_request* request, void (*function)(void* user), void* user) {
    return capi::guarded(comm_of(request), [&] {
        hkt_comm& comm = comm_that_tells(request, "hkt_request_callback");
        if (function == nullptr) capi::refuse("hkt_request_callback: function is null");
        tell_end(comm, capi::request_of(request), engine::Call{function, user});
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
                    return comm->engine->progress().test(execution(started));
                case Request::Type::message:
                    return comm->engine->progress().test(message(started));
                case Request::Type::joined:
                    return capi::JoinedRequests::wait(joined(started), *comm->engine, Clock::now());
                case Request::Type::parameters:
                    return params_of(started).client->wait(&of_parameters(started), Clock::now()).has_value();
                case Request::Type::batch:
                    break;
            }
            cache_of(started);
            return batch(started).test();
        };
        return has_ended() ? HKT_SUCCESS : HKT_IN_PROGRESS;
    });
}

}  // extern "C"
