#include "runtime/transport/net/mailbox.hpp"

#include <iterator>
#include <utility>

namespace hocket::transport {

bool Mailbox::post(std::function<void()> call) {
    bool must_wake;
    {
        const std::lock_guard lock(mutex_);
        if (is_closed_) return false;
        must_wake = calls_.empty() && std::this_thread::get_id() != attendant_;
        calls_.push_back(std::move(call));
    }
    if (must_wake) event_.raise();
    return true;
}

void Mailbox::attend() {
    const std::lock_guard lock(mutex_);
    attendant_ = std::this_thread::get_id();
}

void Mailbox::ready(std::uint32_t) {
    event_.clear();
}

void Mailbox::wait() {
    pollfd entry{fd(), POLLIN, 0};
    poll_until({&entry, 1}, Clock::time_point::max());
    event_.clear();
}

void Mailbox::empty() {
    std::vector<std::function<void()>> calls;
    {
        const std::lock_guard lock(mutex_);
        calls.swap(calls_);
    }
    auto next = calls.begin();
    try {
        while (next != calls.end()) (*next++)();
    } catch (...) {
        const std::lock_guard lock(mutex_);
        calls_.insert(calls_.begin(), std::move_iterator(next), std::move_iterator(calls.end()));
        throw;
    }
}

bool Mailbox::is_empty() const {
    const std::lock_guard lock(mutex_);
    return calls_.empty();
}

bool Mailbox::close() {
    const std::lock_guard lock(mutex_);
    return is_closed_ = calls_.empty();
}

}  // namespace hocket::transport
