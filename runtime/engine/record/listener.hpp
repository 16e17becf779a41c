// Listens for requests for this process's recordings: a signal, or a file named `request` in the folder of
// recordings, which works from other hosts, too, and cannot end a process that does not handle the signal.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace hocket::record {

inline constexpr const char* request_file = "request";

class Listener {
  public:
    // reason: "signal" or "request"; request: the file's first line. Called on a thread of Hocket's own, one
    // call at a time. It may throw.
    using Asked = std::function<void(const std::string& reason, const std::string& request)>;

    // folder: "" for none; a request file that exists already is ignored. signal: 0 for none. A handler that
    // the program had installed for it is still called. One that the program installs later replaces
    // Hocket's. Throws hocket::Error: out_of_memory (the thread), io (a descriptor, or a signal that cannot
    // be caught).
    Listener(const std::string& folder, int signal, Asked asked);
    ~Listener();  // waits for a call that is under way
    Listener(const Listener&) = delete;

  private:
    class Station;
    struct Entry;
    Station& station_;
    std::unique_ptr<Entry> entry_;
};

}  // namespace hocket::record
