// Steps common to all starts of plans: the caller's buffers are checked, then the operation starts.
#pragma once

#include <memory>

#include "capi/handles.hpp"

namespace hocket::capi {

// Throws Error(invalid_argument) if comm is null.
void check_comm(const hkt_comm* comm, const char* function);

// Blocks if `request` is null. Throws Error.
hkt_status start(hkt_comm* comm, const std::shared_ptr<engine::StartablePlan>& plan, const void* send,
                 void* recv, double factor, const engine::Extent& extent, hkt_request** request);

}  // namespace hocket::capi
