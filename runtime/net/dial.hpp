// The guest's side of new connections (handshake.hpp), with as many attempts as its patience allows.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/net/handshake.hpp"

namespace hocket::transport {

struct Dial {
    Endpoint to;
    std::string secret;  // that both must know; never sent
    std::uint32_t rank = 0, world_size = 0;
    std::string identity = {};
    // How long a host at which nobody listens is tried again.
    Clock::duration gone_for{};
    // Added to the patience once somebody listens: the host may know better what is wrong when time is over.
    Clock::duration last_word{};
};

// Why there is no connection, in words about the host ("it ...") or of the kernel.
struct DialError : std::runtime_error {
    enum class Kind {
        unreachable,  // nobody listens there
        silent,       // somebody does, but a handshake did not come to its end in time
        refused,      // the host's words
        impostor,     // what answers does not know the secret, or not even the protocol
    };
    DialError(Kind kind, const std::string& why) : std::runtime_error(why), kind(kind) {}
    Kind kind;
};

// A connection whose ends know that both know the secret; nothing behind the handshake has been read. A host
// that closes connections before it has answered them, because too many come at once, is dialled again.
// Throws DialError, and what the patience throws.
Socket dial(const Dial& call, Patience patience);

}  // namespace hocket::transport
