// hkt_params_server_* and hkt_params_status.
#include "capi/params/server.hpp"

#include <fmt/format.h>

#include "capi/growth.hpp"
#include "capi/params/options.hpp"
#include "runtime/base/environment.hpp"
#include "runtime/params/among_ranks/update_options.hpp"
#include "runtime/params/service/call.hpp"

using namespace hocket;

namespace {

thread_local std::string own_json;  // the calling thread's copy

params::Server& started(const hkt_params_server* handle, const char* function) {
    if (handle == nullptr) capi::refuse(fmt::format("{}: server is null", function));
    handle->require_own("parameter server");
    return *handle->server;
}

void check_json_place(const char* const* json, const char* function) {
    if (json == nullptr)
        capi::refuse(fmt::format("{}: json is null; pass the address of a const char*", function));
}

}  // namespace

namespace hocket::capi {

hkt_params_server* handle_of(std::unique_ptr<params::Server> server) {
    auto made = std::make_unique<hkt_params_server>();
    made->address = server->endpoint().text();
    made->server = std::move(server);
    return made.release();
}

}  // namespace hocket::capi

extern "C" {

hkt_status hkt_params_server_start(const hkt_params_server_options* options, hkt_params_server** server) {
    return capi::guarded([&] {
        if (server == nullptr)
            capi::refuse(
                "hkt_params_server_start: server is null; pass the address of an hkt_params_server*");
        *server = nullptr;
        auto wanted = capi::options_of_server(capi::read_options(options));
        wanted.make_calculator = params::calculate_updates(params::own_update_options());
        *server = capi::handle_of(std::make_unique<params::Server>(std::move(wanted)));
        return HKT_SUCCESS;
    });
}

const char* hkt_params_server_address(const hkt_params_server* server) {
    return server == nullptr || server->is_of_a_parent() ? nullptr : server->address.c_str();
}

hkt_status hkt_params_server_wait(hkt_params_server* server, int64_t timeout_ms) {
    return capi::guarded([&] {
        params::Server& of = started(server, "hkt_params_server_wait");
        const auto until =
            transport::Clock::now() +
            std::chrono::milliseconds(check_timeout("hkt_params_server_wait: timeout_ms", timeout_ms, 0));
        return of.wait(until) ? HKT_SUCCESS : HKT_IN_PROGRESS;
    });
}

hkt_status hkt_params_server_stats(hkt_params_server* server, const char** json) {
    return capi::guarded([&] {
        const params::Server& of = started(server, "hkt_params_server_stats");
        check_json_place(json, "hkt_params_server_stats");
        own_json = of.stats();
        *json = own_json.c_str();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_params_server_finish(hkt_params_server* server) {
    return capi::guarded([&] {
        started(server, "hkt_params_server_finish").finish();
        return HKT_SUCCESS;
    });
}

void hkt_params_server_stop(hkt_params_server* server) {
    if (server != nullptr && server->is_of_a_parent()) capi::give_up(server->server);
    delete server;
}

hkt_status hkt_params_status(const char* address, const char* secret, int64_t timeout_ms, const char** json) {
    return capi::guarded([&] {
        check_json_place(json, "hkt_params_status");
        if (address == nullptr) capi::refuse("hkt_params_status: address is null");
        own_json = params::ask_for_stats(capi::endpoint_of("hkt_params_status: the address", address),
                                         capi::secret_of(secret),
                                         capi::timeout_of("hkt_params_status: timeout_ms", timeout_ms));
        *json = own_json.c_str();
        return HKT_SUCCESS;
    });
}

}  // extern "C"
