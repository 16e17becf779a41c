// The protocol's messages as bytes. Pure: so that it can be fuzzed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

// Integers are little-endian. Of a Sum and of Weights the elements are not among them: they follow on the
// connection, as many as the chunk has.
std::string encode(const Message& message);

// What both sides of a connection know, and no message may exceed.
struct Bounds {
    std::size_t workers = 0;  // of one announcement or sum, at most
    std::size_t chunks = 0;   // of the server
};

// Values are null. Throws transport::ProtocolError, also if the members of an announcement are not a tree.
Message decode(std::string_view bytes, const Bounds& bounds);

}  // namespace hocket::params
