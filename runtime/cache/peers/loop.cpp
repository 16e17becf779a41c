#include "runtime/cache/peers/loop.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "runtime/error.hpp"

namespace hocket::transport {
namespace {

[[noreturn]] void fail(const char* call) {
    throw Error(Status::transport, fmt::format("{} failed for the connections with peers: {}; see ulimit -n "
                                               "and fs.epoll.max_user_watches",
                                               call, error_text(errno)));
}

}  // namespace

PeerLoop::PeerLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_.is_open()) fail("epoll_create1(2)");
}

void PeerLoop::watch(int fd, std::uint32_t events, Watcher& watcher) {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= watchers_.size()) watchers_.resize(index + 1);
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    if (epoll_ctl(epoll_.fd(), watchers_[index] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl(2)");
    watchers_[index] = &watcher;
}

void PeerLoop::forget(int fd) {
    epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
    watchers_[static_cast<std::size_t>(fd)] = nullptr;
}

PeerLoop::Timer PeerLoop::at(Clock::time_point time, std::function<void()> call) {
    return timers_.emplace(time, std::move(call));
}

void PeerLoop::turn(bool may_wait) {
    std::array<epoll_event, 64> events;
    const int count =
        epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), may_wait ? patience_ms() : 0);
    if (count < 0 && errno != EINTR) fail("epoll_wait(2)");
    for (int i = 0; i < count; ++i) {
        // One that was told before may have closed this one.
        const auto index = static_cast<std::size_t>(events[static_cast<std::size_t>(i)].data.fd);
        if (Watcher* watcher = watchers_[index]) watcher->ready(events[static_cast<std::size_t>(i)].events);
    }
    run_timers();
}

int PeerLoop::patience_ms() const {
    if (timers_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now());
    return static_cast<int>(std::clamp<long>(left.count(), 0, INT_MAX));
}

// Those that are set meanwhile wait for the next turn.
void PeerLoop::run_timers() {
    if (timers_.empty()) return;
    const auto now = Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
        const auto timer = timers_.extract(timers_.begin());
        timer.mapped()();
    }
}

}  // namespace hocket::transport
