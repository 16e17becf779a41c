// How the ranks of a host get the descriptor of the memory that they share: the first one hands it out over a
// unix socket to those who prove to be members.
//
//   guest -> host  who it is: its number among the members and its own invitation's name
//   host -> guest  the descriptor, the size of a slice
//
// Only processes of the same user are answered, and a guest believes only a host of its own user.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/window/doorbell.hpp"

namespace hocket::transport {

// What a rank must have before the others are told about it: the sockets at which it is found, under a name
// that no other process has. Every rank makes one and tells the others about it over the bootstrap.
class WindowInvitation {
  public:
    WindowInvitation();  // throws Error(bootstrap)

    const std::string& name() const { return name_; }

    int listener() const { return listener_.fd(); }
    Doorbell take_bell() && { return std::move(bell_); }
    static std::string bell_name(const std::string& name) { return name + "-bell"; }

  private:
    std::string name_;
    Socket listener_;
    Doorbell bell_;
};

struct WindowOffer {
    Socket memory;  // the descriptor
    std::uint64_t slice_bytes;
};

// The first member's part; returns when all the others have been handed the descriptor. Throws hocket::Error:
// timeout (names the missing members), peer_lost, bootstrap.
void hand_out(const WindowInvitation& invitation, const std::vector<std::string>& names, int memory,
              std::uint64_t slice_bytes, const Patience& patience);

// The other members' part. Throws hocket::Error: timeout, peer_lost, bootstrap (the first member has ended).
WindowOffer fetch_offer(const std::vector<std::string>& names, int self, const Patience& patience);

}  // namespace hocket::transport
