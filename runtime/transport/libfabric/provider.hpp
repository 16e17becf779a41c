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

// How long messages go by RMA (remote_writes.hpp), and how their receivers learn that they have been written.
enum class RmaWay { none, with_immediate_data, with_signal };

struct Rma {
    RmaWay way = RmaWay::none;
    std::string why;  // for people
};

// Returns false if this host has no network card with RDMA, as far as the kernel lists them. Needs no
// libfabric, which takes half a second to load. HOCKET_LIBFABRIC may name a library that knows more.
bool may_have_network_card();

// Returns the first port of a network card of this host whose provider drives it and has RMA; nullptr if
// there is none.
Info find_card(const std::string& source_address);

// Decides by HOCKET_RMA, and by what the provider offers. Logs a warning if RMA is wanted and the provider
// lacks something for it. For RMA it replaces the info, which was found for
// this address, by one of the same port that has it. Throws Error(invalid) for another HOCKET_RMA.
Rma choose_rma(Info& info, const std::string& source_address);

// Returns true if messages carry 4 bytes beside their own (remote CQ data).
bool carries_data(const fi_info& info);

// Returns true if libfabric's rxm makes datagrams of the provider's connections.
bool has_rxm(const fi_info& info);

}  // namespace hocket::transport
