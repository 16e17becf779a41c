// Decides which class of Fabric carries a communicator's messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// provider: "tcp" (runtime/transport/streams), or one of libfabric's ("verbs", or "ofi+tcp" for its own tcp;
// runtime/transport/libfabric). If there is no such provider, throws hocket::Error(transport) naming those
// that exist. source_address: a numeric address of this host, for providers over IP; "": one at which other
// hosts can reach this one, or loopback if there is none; with tcp all such addresses. HOCKET_FABRIC_ADDR has
// precedence over both. wanted_nics: by rank, the NIC that the topology wants for transfers with it
// (transport::StreamMesh); only tcp can choose one, so others refuse a list that is not empty.
std::unique_ptr<transport::Fabric> open_fabric(const std::string& provider,
                                               const std::string& source_address = {},
                                               const std::vector<std::string>& wanted_nics = {});

// Opens libfabric's provider for this host's network card, where that writes to other hosts' memory by
// itself. Returns nullptr if there is no such card; if it cannot be opened, which is logged; or if only tcp
// does what the job asks for: encrypts, or chooses NICs. Throws Error(invalid_argument) for a wrong
// HOCKET_RMA.
std::unique_ptr<transport::Fabric> open_network_card(const std::vector<std::string>& wanted_nics);

}  // namespace hocket::engine
