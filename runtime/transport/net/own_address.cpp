#include "runtime/transport/net/own_address.hpp"

#include <cstdlib>

#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/nics.hpp"

namespace hocket::transport {

std::string reachable_address(const std::filesystem::path& interfaces) {
    const auto nics = reachable_nics(interfaces);
    return nics.empty() ? loopback_address() : nics[0].address;
}

std::string chosen_address() {
    const char* const chosen = std::getenv("HOCKET_FABRIC_ADDR");
    return chosen == nullptr ? "" : chosen;
}

std::string own_address() {
    const std::string chosen = chosen_address();
    return chosen.empty() ? reachable_address() : chosen;
}

}  // namespace hocket::transport
