// Networks that a test makes for itself: namespaces, and cables between them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/processes.hpp"
#include "tests/support/tally.hpp"

namespace hocket::test {

// Runs ip(8) with these arguments. Returns true if it succeeded.
bool ip(const std::string& arguments);

// Sets an interface up, without the address that the kernel gives by itself.
bool plug_in(const std::string& end);

// other_end: a name, and perhaps another namespace.
bool lay_cable(const std::string& end, const std::string& other_end);

// Runs the body in a process and a network of its own. Skips the test where that isn't allowed, or where the
// body returns "skip".
void in_own_network(const std::function<std::string()>& body);

// Hosts, each a process with a network of its own, at a switch in the network of the process that makes it.
class Lan {
  public:
    // Each host runs body(host) as soon as its cable is plugged in.
    Lan(int hosts, const std::function<std::string(int)>& body, unsigned deadline_seconds = 30);

    static std::string address(int host);
    const Processes& hosts() const { return processes_; }

    // Drops all packets, in both directions, without notifying either end.
    void cut_off(int host) const;
    void restore(int host) const;

    std::vector<Outcome> wait() { return processes_.wait(); }

  private:
    Tally arrived_, plugged_;
    Processes processes_;
};

}  // namespace hocket::test
