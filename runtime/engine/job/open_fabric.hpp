// Decides which class of Fabric carries a communicator's messages.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// provider: "tcp" (runtime/transport/streams), or one of libfabric's ("verbs", or "ofi+tcp" for its own tcp;
// runtime/transport/libfabric). If there is no such provider, throws hocket::Error(transport) naming those
// that exist. source_address: a numeric address of this host, for providers over IP; "": one at which other
// hosts can reach this one, or loopback if there is none. HOCKET_FABRIC_ADDR has precedence over both.
std::unique_ptr<transport::Fabric> open_fabric(const std::string& provider,
                                               const std::string& source_address = {});

}  // namespace hocket::engine
