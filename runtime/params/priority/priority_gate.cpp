#include "runtime/params/priority/priority_gate.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/environment.hpp"

namespace hocket::params {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t least_bytes = 4096;  // fewer bytes in a window do not count as traffic
constexpr milliseconds resolution{1};      // marks made within this time of the last one are skipped

PriorityOptions checked(PriorityOptions options) {
    check_range("the window of priorities between jobs, in ms,", options.window.count(), 1,
                longest_window.count());
    return options;
}

}  // namespace

PriorityGate::PriorityGate(int priority, std::optional<milliseconds> longest_wait, PriorityOptions options)
    : priority_(static_cast<int>(check_range("the priority", priority, 0, highest_priority))),
      longest_wait_(longest_wait),
      options_(checked(std::move(options))),
      traffic_(options_.folder, options_.links) {}

void PriorityGate::received(std::size_t bytes) {
    const Time now = options_.now();
    if (now - window_began_ >= options_.window) {
        window_began_ = now;
        received_ = 0;
    }
    received_ += bytes;
    if (received_ < least_bytes) return;
    waiting_since_.reset();
    if (now - marked_ < resolution) return;
    marked_ = now;
    traffic_.mark(priority_, now + options_.window);
}

bool PriorityGate::may_receive() {
    const Time now = options_.now();
    if (now < open_until_) return true;
    const Time busy = traffic_.busy_above(priority_, now);
    if (busy <= now) {
        waiting_since_.reset();
        open_until_ = now + resolution;
        return true;
    }
    if (!waiting_since_) waiting_since_ = now;
    if (longest_wait_ && now - *waiting_since_ >= *longest_wait_) return true;
    look_again_ = std::max(busy, now + resolution);
    if (longest_wait_) look_again_ = std::min(look_again_, *waiting_since_ + *longest_wait_);
    return false;
}

}  // namespace hocket::params
