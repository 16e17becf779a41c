// How the ranks of a host get the descriptors of the memory that each of them shares: over unix sockets, by
// way of the first one, which answers those who prove to be members.
//
//   guest -> host  who it is: its number among the members and its own invitation's name; its descriptor, and
//                  what is where in its memory. Or that it has none, and why
//   host -> guest  once all have come: the same of every other member
//   guest -> host  whether it could take them
//   host -> guest  whether all could; if not, why
//
// Only processes of the same user are answered, and a guest believes only a host of its own user.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/transport/window/doorbell.hpp"

namespace hocket::transport {

// What a rank must have before the others are told about it: the sockets at which it is found, under a name
// that no other process has. Every rank makes one and tells the others about it over the bootstrap.
class WindowInvitation {
  public:
    WindowInvitation();  // throws Error(bootstrap)

    const std::string& name() const { return name_; }

    int listener() const { return listener_.fd(); }
    Doorbell take_bell() { return std::move(bell_); }
    static std::string bell_name(const std::string& name) { return name + "-bell"; }

  private:
    std::string name_;
    Socket listener_;
    Doorbell bell_;
};

// What is where in the memory that a member shares.
struct WindowPlaces {
    std::uint64_t bytes;  // of the memory
    std::uint64_t reserved, reserved_bytes;
    bool operator==(const WindowPlaces&) const = default;
};

struct WindowPart {
    Socket memory;  // the descriptor
    WindowPlaces places;
};

// This rank's own.
struct OwnWindowPart {
    int memory;
    WindowPlaces places;
};

// Collective among the members. own: throws if there is none. take: called for every other member's part; may
// throw. What one of these throws on one member, as the first, is thrown on all. Otherwise throws
// hocket::Error: timeout (names the missing members), peer_lost, bootstrap (the first member has ended).
void exchange_parts(const WindowInvitation& invitation, const std::vector<std::string>& names, int self,
                    const std::function<OwnWindowPart()>& own,
                    const std::function<void(int member, WindowPart part)>& take, const Patience& patience);

}  // namespace hocket::transport
