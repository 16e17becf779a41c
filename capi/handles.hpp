// What the opaque handles of hocket.h are, and how a failed call becomes a status and a text.
// An hkt_request is a Request by another name (an engine::Execution or MessageRequest, a cache::Batch), so a
// start allocates nothing.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "capi/hocket.h"
#include "capi/operators.hpp"
#include "runtime/cache/cache.hpp"
#include "runtime/engine/communicator.hpp"
#include "runtime/error.hpp"
#include "runtime/request.hpp"

struct hkt_comm {
    std::unique_ptr<hocket::engine::Communicator> engine;
    hocket::capi::MadeOperators operators;
    std::mutex error_mutex;
    std::string last_error;
};

struct hkt_plan {
    hkt_comm* comm;
    double factor;  // as in engine::Start
    std::unique_ptr<hocket::engine::SizedPlans> plans;
    std::once_flag explained;
    std::string explanation;
};

struct hkt_cache {
    std::unique_ptr<hocket::cache::Cache> cache;
};

namespace hocket::capi {

inline hkt_request* handle(Request& request) {
    return reinterpret_cast<hkt_request*>(&request);
}

// Keeps the text where hkt_comm_last_error finds it, or hkt_last_error if comm is null.
hkt_status keep_error(hkt_comm* comm, hkt_status status, const std::string& text) noexcept;

hkt_status keep_error(hkt_comm* comm, const std::exception& error) noexcept;

[[noreturn]] void refuse(const std::string& text);  // throws Error(invalid_argument)

// Runs call(), which returns a status. No exception leaves this function.
template <typename Call>
hkt_status guarded(hkt_comm* comm, Call call) noexcept {
    try {
        return call();
    } catch (const std::exception& error) {
        return keep_error(comm, error);
    } catch (...) {
        return keep_error(comm, HKT_ERROR_INTERNAL,
                          "a defect in Hocket, please report it: an unknown exception");
    }
}

}  // namespace hocket::capi
