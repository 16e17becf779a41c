// Encodes and decodes the protocol's messages. Pure functions, so that they can be fuzzed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

// Integers are little-endian. The elements of a Sum or of Weights are not included: they follow on the
// connection, as many as the chunk has.
std::string encode(const Message& message);

// Limits that both sides of a connection know. No message may exceed them.
struct Bounds {
    std::size_t workers = 0;  // in one announcement or sum
    std::size_t chunks = 0;   // of the server
};

// Values in the result are null. Throws transport::ProtocolError, also if the members of an announcement do
// not form a tree.
Message decode(std::string_view bytes, const Bounds& bounds);

}  // namespace hocket::params
