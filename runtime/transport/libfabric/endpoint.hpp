// Fabric over an endpoint of one of libfabric's providers.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::transport {

// provider: libfabric's name for it, with rxm on top if it has no datagrams of its own. Throws
// Error(transport) naming the existing providers if this one does not exist.
std::unique_ptr<Fabric> open_libfabric(const std::string& provider, const std::string& source_address);

// Opens the first provider that drives a network card of this host and has RMA. Returns nullptr if there is
// no such card. Throws Error(transport) if there may be one, and libfabric or the provider cannot be opened.
std::unique_ptr<Fabric> open_network_card(const std::string& source_address);

}  // namespace hocket::transport
