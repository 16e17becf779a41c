// hkt_params_*: checks and translates the arguments, nothing more.
#include <fmt/format.h>

#include <cstddef>
#include <span>

#include "capi/growth.hpp"
#include "capi/handles.hpp"
#include "capi/params/options.hpp"
#include "capi/params/server.hpp"
#include "runtime/params/among_ranks/roles.hpp"
#include "runtime/params/among_ranks/update_options.hpp"

using namespace hocket;

namespace {

params::Client& opened(const hkt_params* handle, const char* function) {
    if (handle == nullptr) capi::refuse(fmt::format("{}: params is null", function));
    handle->require_own("parameter worker");
    return *handle->client;
}

// Returns the pointers of a call, one for each tensor.
template <typename To, typename From>
std::vector<To*> tensors_of(const char* function, const char* name, From* const* given, std::size_t count) {
    capi::check_array(given, count, function, name);
    std::vector<To*> pointers;
    for (std::size_t i = 0; i < count; ++i) {
        if (given[i] == nullptr) capi::refuse(fmt::format("{}: {}[{}] is null", function, name, i));
        pointers.push_back(static_cast<To*>(given[i]));
    }
    return pointers;
}

std::uint32_t number_of(const char* function, std::size_t tensor) {
    if (tensor > UINT32_MAX) capi::refuse(fmt::format("{}: there is no tensor {}", function, tensor));
    return static_cast<std::uint32_t>(tensor);
}

// Waits for the request that was started, or passes it to the caller.
hkt_status finish(hkt_params* params, params::ParameterRequest* started, hkt_request** request) {
    if (request == nullptr) {
        params->client->wait(started, std::chrono::steady_clock::time_point::max());
        return HKT_SUCCESS;
    }
    started->user = params;
    *request = capi::handle(*started);
    return HKT_SUCCESS;
}

hkt_params* params_handle_of(std::unique_ptr<params::Client> client, const hkt_params_options& given) {
    auto made = std::make_unique<hkt_params>();
    made->client = std::move(client);
    made->interruption = {given.is_interrupted, given.interrupt_user, "hkt_params_options.is_interrupted"};
    made->is_unbounded = given.staleness == HKT_UNBOUNDED;
    return made.release();
}

void check_has_no_way_of_its_own(const hkt_params_options& given) {
    if (given.address != nullptr || given.secret != nullptr || given.workers != 0 || given.number != -1)
        capi::refuse(
            "hkt_params_options has an address, a secret, workers or a number: with ranks, these are the "
            "communicator's; leave them as HKT_PARAMS_OPTIONS_INIT sets them");
}

}  // namespace

extern "C" {

hkt_status hkt_params_open(const hkt_params_tensor* tensors, size_t count, const void* const* first_weights,
                           const hkt_params_options* options, hkt_params** params) {
    return capi::guarded([&] {
        const char* const function = "hkt_params_open";
        if (params == nullptr)
            capi::refuse(fmt::format("{}: params is null; pass the address of an hkt_params*", function));
        *params = nullptr;
        const hkt_params_options given = capi::read_options(options);
        auto wanted = capi::options_of_worker(function, {tensors, count, first_weights}, given);
        params::check(wanted.job);
        params::settle_update(wanted.job, params::own_update_options());
        wanted.make_calculator = params::calculate_updates(params::own_update_options());
        *params = params_handle_of(std::make_unique<params::Client>(std::move(wanted)), given);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_params_open_with_ranks(hkt_comm* comm, int32_t servers, const hkt_params_tensor* tensors,
                                      size_t count, const void* const* first_weights,
                                      const hkt_params_options* options, hkt_params** params,
                                      hkt_params_server** server) {
    const char* const function = "hkt_params_open_with_ranks";
    if (comm == nullptr)
        return capi::guarded(
            [&]() -> hkt_status { capi::refuse(fmt::format("{}: comm is null", function)); });
    return capi::guarded(comm, [&] {
        if (params == nullptr || server == nullptr)
            capi::refuse(
                fmt::format("{}: params or server is null; pass the addresses of an hkt_params* and "
                            "an hkt_params_server*",
                            function));
        *params = nullptr;
        *server = nullptr;
        const hkt_params_options given = capi::read_options(options);
        auto role = params::take_roles(*comm->engine, servers, [&] {
            check_has_no_way_of_its_own(given);
            const bool serves = comm->engine->rank() >= comm->engine->size() - servers;
            return capi::options_among_ranks(function, {tensors, count, serves ? nullptr : first_weights},
                                             given);
        });
        if (role.client)
            *params = params_handle_of(std::move(role.client), given);
        else
            *server = capi::handle_of(std::move(role.server));
        return HKT_SUCCESS;
    });
}

void hkt_params_close(hkt_params* params) {
    if (params != nullptr && params->is_of_a_parent()) capi::give_up(params->client);
    delete params;
}

hkt_status hkt_params_push(hkt_params* params, size_t first, size_t count, const void* const* gradients,
                           hkt_request** request) {
    return capi::guarded([&] {
        const char* const function = "hkt_params_push";
        if (request != nullptr) *request = nullptr;
        params::Client& to = opened(params, function);
        const auto pointers = tensors_of<const std::byte>(function, "gradients", gradients, count);
        return finish(params, to.push(number_of(function, first), pointers), request);
    });
}

hkt_status hkt_params_push_sparse(hkt_params* params, size_t tensor, size_t count, const uint32_t* indices,
                                  const void* values, hkt_request** request) {
    return capi::guarded([&] {
        const char* const function = "hkt_params_push_sparse";
        if (request != nullptr) *request = nullptr;
        params::Client& to = opened(params, function);
        capi::check_array(indices, count, function, "indices");
        capi::check_array(values, count, function, "values");
        const params::SparseUpdate update{{indices, count}, static_cast<const std::byte*>(values)};
        return finish(params, to.push(number_of(function, tensor), update), request);
    });
}

hkt_status hkt_params_clock(hkt_params* params, uint64_t* round) {
    return capi::guarded([&] {
        const params::Clock now = opened(params, "hkt_params_clock").tick();
        if (round != nullptr) *round = now;
        return HKT_SUCCESS;
    });
}

hkt_status hkt_params_pull(hkt_params* params, size_t first, size_t count, void* const* weights,
                           int64_t staleness, hkt_request** request) {
    return capi::guarded([&] {
        const char* const function = "hkt_params_pull";
        if (request != nullptr) *request = nullptr;
        params::Client& from = opened(params, function);
        const auto pointers = tensors_of<std::byte>(function, "weights", weights, count);
        if (staleness < HKT_UNBOUNDED)
            capi::refuse(fmt::format("{}: the staleness is {}; it is a number of rounds, or HKT_UNBOUNDED",
                                     function, staleness));
        if (staleness == HKT_UNBOUNDED && !params->is_unbounded)
            capi::refuse(
                fmt::format("{}: the staleness is HKT_UNBOUNDED, where the service was opened for a "
                            "number of rounds",
                            function));
        // As an unsigned number, HKT_UNBOUNDED exceeds any number of rounds.
        const auto most = static_cast<params::Clock>(staleness);
        return finish(params, from.pull(number_of(function, first), pointers, most), request);
    });
}

hkt_status hkt_params_checkpoint(hkt_params* params, hkt_request** request) {
    return capi::guarded([&] {
        if (request != nullptr) *request = nullptr;
        return finish(params, opened(params, "hkt_params_checkpoint").checkpoint(), request);
    });
}

int32_t hkt_params_number(const hkt_params* params) {
    return params == nullptr || params->is_of_a_parent() ? -1
                                                         : static_cast<int32_t>(params->client->number());
}

hkt_status hkt_params_get_stats(hkt_params* params, hkt_params_stats* stats, size_t size) {
    return capi::guarded([&] {
        const params::Client& of = opened(params, "hkt_params_get_stats");
        const capi::Place place(stats, size);
        const params::WorkerStats now = of.stats();
        place.write({.round = now.clock,
                     .bytes_sent = now.bytes_sent,
                     .bytes_received = now.bytes_received,
                     .kept_bytes = now.kept_bytes,
                     .epochs = now.epochs,
                     .reconnections = now.reconnections,
                     .children = now.children});
        return HKT_SUCCESS;
    });
}

}  // extern "C"
