// Checks and translates the options of hkt_params_*.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "capi/hocket.h"
#include "runtime/params/server/server.hpp"
#include "runtime/params/worker/worker.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::capi {

// The model that a call was given.
struct GivenModel {
    const hkt_params_tensor* tensors;
    std::size_t count;
    const void* const* first_weights;  // may be null
};

// All throw Error(invalid_argument).

// For a worker among ranks: the server's address, the secret, the worker's number and the number of workers
// are left out. The job is not checked here: see params::check() and params::settle_update().
params::WorkerOptions options_among_ranks(const char* function, const GivenModel& model,
                                          const hkt_params_options& given);
params::WorkerOptions options_of_worker(const char* function, const GivenModel& model,
                                        const hkt_params_options& given);
params::ServerOptions options_of_server(const hkt_params_server_options& given);

// given null: HOCKET_SECRET, or none.
std::string secret_of(const char* given);
// given 0: HOCKET_TIMEOUT_MS, or its default.
std::chrono::milliseconds timeout_of(const char* name, std::int64_t given);
// name: of the argument or variable that has the text, for errors.
transport::Endpoint endpoint_of(const std::string& name, const std::string& text);

}  // namespace hocket::capi
