// The guest's side of new connections (handshake.hpp). It makes as many attempts as its patience allows.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "runtime/transport/net/handshake.hpp"

namespace hocket::transport {

struct Dial {
    Endpoint to;
    // One attempt at a connection instead of connect_to(to, ...), with the same results.
    std::function<Socket(const Patience&, Reasons&)> connect = {};
    // Is told why a connection was of no use, if another attempt may follow. May be empty.
    std::function<void(const std::string& why)> note = {};
    std::string secret;  // both sides must know it; never sent
    std::uint32_t rank = 0, world_size = 0;
    std::string identity = {};
    // The time to keep trying if nothing listens at the host.
    Clock::duration gone_for{};
    // Added to the patience once something listens there: when the time is over, the host may know better
    // what is wrong.
    Clock::duration last_word{};
    bool encrypts = encrypts_connections();  // the host must have the same
};

// The reason why there is no connection, in words about the host ("it ...") or in the kernel's words. If it
// is unreachable or silent: the reasons of all attempts, by address.
struct DialError : std::runtime_error {
    enum class Kind {
        unreachable,  // nothing listens there
        silent,       // something listens, but the handshake was not complete in time
        refused,      // the text is the host's
        impostor,     // the process there does not know the secret, or not even the protocol
    };
    DialError(Kind kind, const std::string& why) : std::runtime_error(why), kind(kind) {}
    Kind kind;
};

// Returns a connection on which each end has proved that it knows the secret; no byte after the handshake has
// been read. If the host closes a connection before it answers, because too many guests come at once, dial
// tries again. Throws DialError, and what the patience throws.
Socket dial(const Dial& call, Patience patience);

}  // namespace hocket::transport
