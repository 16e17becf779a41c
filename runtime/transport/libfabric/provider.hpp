// Chooses libfabric's provider and the network address of an endpoint.
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <string>

namespace hocket::transport {

struct InfoDeleter {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoDeleter>;

// source_address: a numeric address or host name of this machine. If it is "", chooses the first IPv4 address
// that others can reach in libfabric's order (fastest interface first), else IPv6, else loopback. Throws
// Error(transport) naming the existing providers.
Info choose_provider(const std::string& provider, const std::string& source_address);

// Returns true if libfabric's rxm makes datagrams of the provider's connections.
bool has_rxm(const fi_info& info);

}  // namespace hocket::transport
