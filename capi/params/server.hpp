// The handle of a server.
#pragma once

#include <memory>
#include <string>

#include "capi/handles.hpp"
#include "runtime/params/server/server.hpp"

struct hkt_params_server : hocket::capi::Handle {
    std::unique_ptr<hocket::params::Server> server;
    std::string address;
};

namespace hocket::capi {

hkt_params_server* handle_of(std::unique_ptr<params::Server> server);

}  // namespace hocket::capi
