// Tells all processes of one user which priorities have traffic on this host. They share memory with one slot
// for each priority. No lock guards the slots, and each holds the time until which it counts, so a process
// may die at any point. The last user removes the memory's file; if that one is killed, the last of a later
// set of users does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/environment.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

inline constexpr int highest_priority = 255;
// The longest time that traffic may be announced ahead.
inline constexpr std::chrono::milliseconds longest_window{10'000};

// Returns the name of this host's links: processes with the same name share links. It is HOCKET_PARAMS_HOST,
// or the network namespace. Containers with their own namespaces may share a card, but cannot detect it, and
// rarely share /dev/shm, through which they would see each other. To make them share priorities, mount the
// same /dev/shm into them and set the variable to the same text in all. For processes that do share /dev/shm
// the namespace is right: two namespaces have different loopback interfaces and different cables. Throws
// Error(invalid_argument) as EnvironmentReader does.
std::string name_of_links(const Environment& environment);

// Not thread-safe: use from one thread at a time in each process.
class HostTraffic {
  public:
    // folder: for the shared memory's file, normally /dev/shm. If the folder is missing or full, or the file
    // of that name is not such memory or not this user's alone, this process sees only its own traffic, and
    // logs that.
    HostTraffic(const std::string& folder, const std::string& links);

    // Announces that the priority has traffic until `until`, at most longest_window from now.
    void mark(int priority, transport::Clock::time_point until);
    // Returns the time until which a higher priority has traffic, as far as known now; a time in the past if
    // none has.
    transport::Clock::time_point busy_above(int priority, transport::Clock::time_point now) const;

    bool is_shared() const { return is_shared_; }

  private:
    struct Slots;
    struct User;
    static std::shared_ptr<Slots> map(const std::string& path, std::string& why);

    std::shared_ptr<Slots> slots_;
    bool is_shared_ = true;
};

}  // namespace hocket::params
