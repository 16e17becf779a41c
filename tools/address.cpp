#include "tools/address.hpp"

#include <charconv>
#include <stdexcept>

namespace hocket::tools {

void parse_address(const std::string& text, std::string& host, int& port) {
    const std::size_t colon = text.rfind(':');
    const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 0 ||
        port > 65535)
        throw std::invalid_argument("'" + text +
                                    "' is no address: write HOST:PORT, with a port from 0 to 65535");
    host = text.substr(0, colon);
    const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (is_bracketed) host = host.substr(1, host.size() - 2);
    if (!is_bracketed && host.find(':') != std::string::npos)
        throw std::invalid_argument("'" + text + "' is no address: write an IPv6 address as [" + host +
                                    "]:" + digits);
    if (host.empty()) host = "::";  // all addresses, of IPv4, too
}

}  // namespace hocket::tools
