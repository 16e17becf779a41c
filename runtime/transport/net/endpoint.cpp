#include "runtime/transport/net/endpoint.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>
#include <utility>

namespace hocket::transport {

std::optional<Endpoint> Endpoint::parse(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string host(text.substr(0, colon));
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != host.npos)
        return std::nullopt;  // of "::1:80" nobody knows where the port begins
    if (host.find_first_of("[]") != host.npos) return std::nullopt;
    int port = -1;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (host.empty() || error != std::errc() || stop != end || port < 0 || port > 65535) return std::nullopt;
    return Endpoint{std::move(host), port};
}

std::string Endpoint::text() const {
    return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                       : fmt::format("[{}]:{}", host, port);
}

}  // namespace hocket::transport
