// A host and a port, and the clock by which all that goes between hosts is timed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace hocket::transport {

using Clock = std::chrono::steady_clock;

struct Endpoint {
    std::string host;
    int port;
    std::string text() const;  // "127.0.0.1:29500", "[::1]:29500"
    bool is_any_address() const { return host == "0.0.0.0" || host == "::"; }
    // Parses what text() returns, also with a host's name. Returns nullopt for anything else.
    static std::optional<Endpoint> parse(std::string_view text);
};

}  // namespace hocket::transport
