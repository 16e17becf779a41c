#include "tools/address.hpp"

#include <stdexcept>

#include "runtime/transport/net/endpoint.hpp"

namespace hocket::tools {

void parse_address(const std::string& text, std::string& host, int& port) {
    const bool is_all = text.starts_with(':');  // of IPv4, too
    const auto endpoint = transport::Endpoint::parse(is_all ? "[::]" + text : text);
    if (!endpoint)
        throw std::invalid_argument("'" + text +
                                    "' is no address: write HOST:PORT, [IPV6]:PORT or :PORT, with a port "
                                    "from 0 to 65535");
    host = endpoint->host;
    port = endpoint->port;
}

}  // namespace hocket::tools
