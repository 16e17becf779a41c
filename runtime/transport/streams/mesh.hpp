// TCP connections between all ranks of a communicator, and with no other process.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// The address at which one rank listens for the others, and the key that they must know. Only members get the
// invitation, over the bootstrap's connections. The listener is closed once all have come.
class StreamMesh {
  public:
    // source_address: a numeric address of this host; "": reachable_address(). Throws Error(transport).
    explicit StreamMesh(const std::string& source_address);

    const std::string& invitation() const { return invitation_; }

    // Collective: invitations[r] is rank r's. Returns the connections by rank; this rank's own entry is
    // closed. Ranks with an empty invitation are left out. Strangers are turned away and logged to stderr.
    // Throws Error(transport, timeout) naming the ranks, and what the patience throws.
    std::vector<Socket> connect(std::span<const std::string> invitations, const Patience& patience);

  private:
    void admit(std::size_t self, const std::set<std::size_t>& expected, std::vector<Socket>& sockets,
               const Patience& patience);

    Endpoint at_;
    Socket listener_;
    std::string key_, invitation_;
};

}  // namespace hocket::transport
