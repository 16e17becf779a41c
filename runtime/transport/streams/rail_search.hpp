// Looks for a rail over which a rank can be reached.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/transport/net/nics.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// bound: the connection keeps to the interface, whatever the routes say.
Source source_of(const Rail& rail, bool bound);

class RailSearch {
  public:
    // rails: the best first; at least one. bound: connections keep to the interface of their rail, whatever
    // the routes say.
    RailSearch(std::vector<Rail> rails, int port, bool bound);

    // Tries one rail after the other until a connection is made. A rail that does not answer has a second at
    // first, then the others have their turn; each further turn is twice as long. Returns a closed socket
    // when all rails are refused or lead nowhere, or time is over. Throws as connect_to.
    Socket connect(const Patience& patience);

    // Keeps the reason why the last connection was of no use; its rail may be tried again.
    void note(const std::string& why) { rails_[last_].reasons.add("", why); }

    // Gives up the rail of the last connection: another process is at its end. Returns false if it was the
    // last one.
    bool give_up(const std::string& why);

    // Returns this host's ends of the rails that did not answer, as Nic::text() has them.
    std::vector<std::string> silent_nics() const;

    // Returns where the search led, and why it failed, for people: "10.0.0.1:4000: Connection refused"; of
    // several rails each, with this host's end, and of several attempts each reason. A hint may follow.
    std::string failure() const;

  private:
    struct Tried {
        Rail rail;
        Reasons reasons = {};
        bool is_given_up = false, is_silent = false;
    };

    Socket try_one(Tried& tried, const Patience& patience) const;
    std::string why_not(const Tried& tried) const;
    Endpoint end_of(const Tried& tried) const { return {tried.rail.there.address, port_}; }

    std::vector<Tried> rails_;
    const int port_;
    const bool bound_;
    std::size_t last_ = 0;
};

}  // namespace hocket::transport
