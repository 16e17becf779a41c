// Which priorities have traffic on this host, known to all processes of one user: memory that they share, one
// slot for each priority. No lock guards the slots, and each says until when it counts: so it does not matter
// when a process dies. The file of that memory goes with its last user; if that one is killed, with the last
// one of those that come later.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/environment.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

inline constexpr int highest_priority = 255;
inline constexpr std::chrono::milliseconds longest_window{10'000};  // that traffic may count in advance

// What stands for this host: processes that give the same text have the same links. HOCKET_PARAMS_HOST, or
// the network namespace. Containers in namespaces of their own may share a card, but nothing in them tells,
// and they rarely share /dev/shm, through which they would see each other. Who wants them to, mounts the same
// /dev/shm into them and sets the variable, to the same text in all. In the other direction a namespace is
// right: the loopback interface, and all cables, of two of them are different ones.
// Throws Error(invalid_argument) as EnvironmentReader does.
std::string name_of_links(const Environment& environment);

// One thread at a time, in each process.
class HostTraffic {
  public:
    // folder: where such memory has its files, normally /dev/shm. If that is missing or full, or what lies
    // there under the file's name is not such memory, or not this user's alone, then this process sees only
    // its own traffic. That is logged.
    HostTraffic(const std::string& folder, const std::string& links);

    // The priority has traffic, until then: at most longest_window from now.
    void mark(int priority, transport::Clock::time_point until);
    // Until when a priority higher than this one has traffic, as far as one can know now; in the past: none
    // has.
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
