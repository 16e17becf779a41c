// Which class of Fabric carries a communicator's messages.
#pragma once

#include <memory>
#include <string>

#include "runtime/fabric/fabric.hpp"

namespace hocket::engine {

// provider: "tcp" (runtime/streams), or any of libfabric's ("verbs", "ofi+tcp" for its tcp;
// runtime/libfabric). Throws hocket::Error(transport) naming the providers that exist when there is none.
// source_address: a numeric address of this host to be reached at, for providers over IP; "": an address that
// other hosts can reach, loopback if there is none. HOCKET_FABRIC_ADDR goes before both.
std::unique_ptr<transport::Fabric> open_fabric(const std::string& provider,
                                               const std::string& source_address = {});

}  // namespace hocket::engine
