// TCP connections between all ranks of a communicator, and with no other process.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/nics.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/streams/mesh_address.hpp"

namespace hocket::transport {

// Returns how many NICs of a host may carry large messages together (HOCKET_RAILS). Throws Error(invalid).
std::size_t most_rails();

// The addresses at which one rank listens for the others, and the key that they must know. Only members get
// the invitation, over the bootstrap's connections. The listener is closed once all have come.
class StreamMesh {
  public:
    // source_address: a numeric address of this host, the only one that the others are told of; "": those of
    // reachable_nics(), or loopback if there are none. wanted: by rank, the NIC for the connection with it,
    // on both hosts: an interface's name, or a subnet; "", or where the list ends: the best that works.
    // Throws Error(transport).
    explicit StreamMesh(const std::string& source_address, std::vector<std::string> wanted = {});

    const std::string& invitation() const { return invitation_; }

    // Collective: invitations[r] is rank r's. Returns the connections by rank, none for this rank: one, or
    // where several pairs of NICs are equally good, one for each that works, in an order that both ranks
    // know. Ranks with an empty invitation are left out. Strangers are turned away and logged to stderr.
    // Throws Error(transport, timeout) naming the ranks, and what the patience throws.
    using Lanes = std::vector<Socket>;
    std::vector<Lanes> connect(std::span<const std::string> invitations, const Patience& patience);

    // Returns the NIC and the addresses of a connection, for people: "eth1 (10.0.1.1 to 10.0.1.2)".
    std::string rail_text(const Socket& connection) const;

  private:
    std::string wanted_with(std::size_t rank) const { return rank < wanted_.size() ? wanted_[rank] : ""; }
    void count_sharers(std::span<const std::string> invitations);
    std::vector<Rail> rails_to(std::size_t rank, const MeshAddress& peer) const;
    Lanes visit(std::size_t rank, std::size_t self, std::span<const std::string> invitations,
                const Patience& patience);
    void add_lanes(const std::vector<Rail>& rails, const MeshAddress& peer, const Dial& call, bool bound,
                   const Patience& patience, Lanes& lanes) const;
    void keep_to_nic(std::size_t rank, const Admitted& guest) const;
    void admit(std::size_t self, const std::set<std::size_t>& expected, std::vector<Lanes>& peers,
               const Patience& patience);

    std::vector<std::string> wanted_;
    std::size_t rails_;             // that carry large messages together
    std::set<std::string> silent_;  // NICs of this host by which some rank did not answer
    MeshAddress own_;
    Socket listener_;
    std::string invitation_;
};

}  // namespace hocket::transport
