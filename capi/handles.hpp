// What the opaque handles of hocket.h are. An hkt_request is a Request by another name (an engine::Execution
// or MessageRequest, a cache::Batch), so a start allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "capi/errors.hpp"
#include "capi/hocket.h"
#include "capi/operators.hpp"
#include "runtime/cache/cache.hpp"
#include "runtime/engine/communicator.hpp"
#include "runtime/request.hpp"

struct hkt_comm {
    std::unique_ptr<hocket::engine::Communicator> engine;
    hocket::capi::MadeOperators operators;
    hocket::capi::LastError last_error;
};

struct hkt_plan {
    hkt_comm* comm;
    double factor;  // as in engine::Start
    std::unique_ptr<hocket::engine::SizedPlans> plans;
    std::once_flag explained;
    std::string explanation;
    std::mutex state_mutex;
    std::optional<std::uint64_t> state_count = std::nullopt;  // of the starts of a plan that keeps a state
};

struct hkt_cache {
    std::unique_ptr<hocket::cache::Cache> cache;
};

namespace hocket::capi {

inline hkt_request* handle(Request& request) {
    return reinterpret_cast<hkt_request*>(&request);
}

// As in errors.hpp, for a call of this communicator; null: the caller gave none.
template <typename Call>
hkt_status guarded(hkt_comm* comm, Call call) noexcept {
    return guarded(comm == nullptr ? nullptr : &comm->last_error, call);
}

}  // namespace hocket::capi
