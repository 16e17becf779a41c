// The ranks of a host exchange the descriptors of the memory that each of them shares, over unix sockets,
// through the first rank, which answers processes that prove to be members.
//
//   guest -> host  its number among the members and its own invitation's name; its descriptor, and
//                  the places in its memory. Or that it has no memory, and why
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

// The sockets at which a rank is found, under a name that no other process has. Every rank makes them first,
// and then sends the name to the others over the bootstrap.
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

// The places in the memory that a member shares.
struct WindowPlaces {
    std::uint64_t bytes;  // of the memory
    std::uint64_t reserved, reserved_bytes;
    bool operator==(const WindowPlaces&) const = default;
};

struct WindowPart {
    Socket memory;  // the descriptor
    WindowPlaces places;
};

// This rank's own part.
struct OwnWindowPart {
    int memory;
    WindowPlaces places;
};

// Exchanges the parts. Collective among the members. own: returns this rank's part, or throws if there is
// none. take: called for every other member's part; may throw. If one of these throws on a member, the first
// such error is thrown on all. Otherwise throws hocket::Error: timeout (names the missing members),
// peer_lost, bootstrap (the first member has ended).
void exchange_parts(const WindowInvitation& invitation, const std::vector<std::string>& names, int self,
                    const std::function<OwnWindowPart()>& own,
                    const std::function<void(int member, WindowPart part)>& take, const Patience& patience);

}  // namespace hocket::transport
