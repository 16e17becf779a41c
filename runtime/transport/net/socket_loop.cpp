#include "runtime/transport/net/socket_loop.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

[[noreturn]] void fail(const char* call) {
    throw Error(Status::transport, fmt::format("{} failed: {}; see ulimit -n and fs.epoll.max_user_watches",
                                               call, error_text(errno)));
}

}  // namespace

SocketLoop::SocketLoop(Way way) : epoll_(way == Way::epoll ? epoll_create1(EPOLL_CLOEXEC) : -1) {
    if (way == Way::epoll && !epoll_.is_open()) fail("epoll_create1(2)");
}

void SocketLoop::watch(int fd, std::uint32_t events, Watcher& watcher) {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= watched_.size()) watched_.resize(index + 1);
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    const int operation = watched_[index].watcher ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_.is_open() && epoll_ctl(epoll_.fd(), operation, fd, &event) != 0) fail("epoll_ctl(2)");
    watched_[index].watcher = &watcher;
    watched_[index].events = events;
}

void SocketLoop::again(int fd) {
    if (!std::exchange(watched_[static_cast<std::size_t>(fd)].is_called_again, true)) again_.push_back(fd);
}

void SocketLoop::forget(int fd) {
    if (epoll_.is_open()) epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
    watched_[static_cast<std::size_t>(fd)] = {};
}

SocketLoop::Timer SocketLoop::at(Clock::time_point time, std::function<void()> call) {
    return timers_.emplace(time, std::move(call));
}

void SocketLoop::turn(Clock::time_point until) {
    if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
    if (due_again_.empty()) due_again_.swap(again_);
    for (const int fd : due_again_) watched_[static_cast<std::size_t>(fd)].is_called_again = false;
    if (!due_again_.empty()) until = Clock::now();
    epoll_.is_open() ? turn_by_epoll(until) : turn_by_poll(until);
    tell_again();
    run_timers();
}

void SocketLoop::turn_by_epoll(Clock::time_point until) {
    const auto now = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(until, now) - now).count();
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::min<long>(left, INT_MAX)));
    if (count < 0 && errno != EINTR) fail("epoll_wait(2)");
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        tell(event.data.fd, event.events);
    }
}

void SocketLoop::turn_by_poll(Clock::time_point until) {
    static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP);
    std::vector<pollfd> set;
    for (std::size_t fd = 0; fd < watched_.size(); ++fd)
        if (watched_[fd].watcher)
            set.push_back({static_cast<int>(fd), static_cast<short>(watched_[fd].events), 0});
    poll_until(set, until);
    for (const pollfd& entry : set)
        if (entry.revents != 0) tell(entry.fd, static_cast<std::uint32_t>(entry.revents));
}

// Another watcher may have closed this descriptor in the same turn.
void SocketLoop::tell(int fd, std::uint32_t events) {
    if (Watcher* watcher = watched_[static_cast<std::size_t>(fd)].watcher) watcher->ready(events);
}

// A watcher that throws leaves the others for the next turn.
void SocketLoop::tell_again() {
    while (!due_again_.empty()) {
        const int fd = due_again_.back();
        due_again_.pop_back();
        if ((watched_[static_cast<std::size_t>(fd)].events & EPOLLIN) != 0) tell(fd, EPOLLIN);
    }
}

// Timers that are set meanwhile wait for the next turn.
void SocketLoop::run_timers() {
    if (timers_.empty()) return;
    const auto now = Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
        const auto timer = timers_.extract(timers_.begin());
        timer.mapped()();
    }
}

}  // namespace hocket::transport
