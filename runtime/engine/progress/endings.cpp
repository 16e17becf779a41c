#include "runtime/engine/progress/endings.hpp"

#include <sys/eventfd.h>

#include <chrono>

#include "runtime/base/thread.hpp"

namespace hocket::engine {

void Caller::prepare() {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread("hkt-calls", [this] { run(); });
}

void Caller::add(std::list<Call>& from, std::list<Call>::iterator call) {
    const std::lock_guard lock(mutex_);
    due_.splice(due_.end(), from, call);
    changed_.notify_one();
}

void Caller::finish() {
    {
        const std::lock_guard lock(mutex_);
        if (!thread_.joinable()) return;
        is_ending_ = true;
        changed_.notify_one();
    }
    thread_.join();
}

bool Caller::is_this_thread() {
    const std::lock_guard lock(mutex_);
    return thread_.get_id() == std::this_thread::get_id();
}

void Caller::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return !due_.empty() || is_ending_; });
        if (due_.empty()) return;
        const Call call = due_.front();
        due_.pop_front();
        lock.unlock();
        call.function(call.user);
        lock.lock();
    }
}

void Endings::add(const Request& request, Way way) {
    Waiting waiting{&request, {}, {}, {nullptr}};
    if (auto* const eventfd = std::get_if<transport::Socket>(&way)) {
        waiting.eventfd = std::move(*eventfd);
    } else if (const auto* const call = std::get_if<Call>(&way)) {
        caller_.prepare();
        waiting.call.push_back(*call);
    } else {
        waiting.moment = std::get<Moment>(way);
    }
    waiting_.push_back(std::move(waiting));
}

std::list<Endings::Waiting>::iterator Endings::tell(std::list<Waiting>::iterator ended) noexcept {
    // A write fails only if the eventfd's counter is full; then it is readable anyway.
    if (ended->eventfd.is_open()) eventfd_write(ended->eventfd.fd(), 1);
    if (ended->moment.at != nullptr)
        ended->moment.at->store(
            std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    if (!ended->call.empty()) caller_.add(ended->call, ended->call.begin());
    return waiting_.erase(ended);
}

}  // namespace hocket::engine
