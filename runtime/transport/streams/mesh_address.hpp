// What a rank tells the others of where it listens for their connections.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/net/nics.hpp"

namespace hocket::transport {

struct MeshAddress {
    int port = 0;           // the same at all addresses
    std::string key;        // a guest must know it
    std::vector<Nic> nics;  // the best first; at least one

    std::string encode() const;
    static MeshAddress decode(std::string_view text);  // throws ProtocolError

    std::string text() const;  // for people: "10.0.0.1:4000, 10.0.1.1:4000"
};

}  // namespace hocket::transport
