#include "runtime/engine/job/open_fabric.hpp"

#include <fmt/format.h>

#include <atomic>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"
#include "runtime/transport/libfabric/endpoint.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/net/sealing.hpp"
#include "runtime/transport/streams/streams.hpp"

namespace hocket::engine {
namespace {

// Precedes the name of a libfabric provider if Hocket has a provider of the same name.
constexpr std::string_view of_libfabric = "ofi+";

std::unique_ptr<transport::Fabric> open_at(const std::string& provider, const std::string& source_address,
                                           const std::vector<std::string>& wanted_nics) {
    if (provider == "tcp") return transport::open_streams(source_address, wanted_nics);
    if (transport::encrypts_connections())
        throw Error(Status::invalid_argument,
                    fmt::format("HOCKET_ENCRYPTION is on, and libfabric's provider {} does not encrypt; let "
                                "Hocket's tcp carry the messages (HOCKET_PROVIDER=tcp)",
                                provider));
    if (!wanted_nics.empty())
        throw Error(Status::invalid_argument,
                    fmt::format("the topology names NICs for its levels, which provider {} cannot choose; "
                                "leave them out, or use tcp",
                                provider));
    return transport::open_libfabric(
        provider.starts_with(of_libfabric) ? provider.substr(of_libfabric.size()) : provider, source_address);
}

}  // namespace

std::unique_ptr<transport::Fabric> open_fabric(const std::string& provider, const std::string& source_address,
                                               const std::vector<std::string>& wanted_nics) {
    const std::string chosen = transport::chosen_address();
    if (chosen.empty()) return open_at(provider, source_address, wanted_nics);
    try {
        return open_at(provider, chosen, wanted_nics);
    } catch (const Error& error) {
        throw Error(error.status(), fmt::format("{}; the source address {} (HOCKET_FABRIC_ADDR) must be an "
                                                "address of this host, in numbers; a link-local one with "
                                                "its interface, as in fe80::1%eth0",
                                                error.what(), chosen));
    }
}

std::unique_ptr<transport::Fabric> open_network_card(const std::vector<std::string>& wanted_nics) {
    if (transport::encrypts_connections() || !wanted_nics.empty()) return nullptr;
    try {
        return transport::open_network_card(transport::chosen_address());
    } catch (const Error& error) {
        if (error.status() != Status::transport) throw;
        static std::atomic<bool> said{false};  // the same of each communicator
        if (!said.exchange(true))
            log_line(
                "hocket: warning: no network card with RDMA carries this host's messages: {}; "
                "HOCKET_PROVIDER=tcp, on all ranks, asks for none",
                error.what());
        return nullptr;
    }
}

}  // namespace hocket::engine
