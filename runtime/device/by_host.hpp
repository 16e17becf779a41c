// Why data of devices went by way of the host. Each reason is told once.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace hocket::device {

// Thread-safe.
class ByHost {
  public:
    // tell: called for each new reason.
    explicit ByHost(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

    void note(const std::string& reason);
    // Returns the reasons so far, a line each; "" if there are none. Valid as long as this object.
    const std::string& text() const;

  private:
    const std::function<void(const std::string&)> tell_;
    mutable std::mutex mutex_;
    std::set<std::string> reasons_;
    std::deque<std::string> texts_{""};  // the last is today's; callers may still read the others
};

}  // namespace hocket::device
