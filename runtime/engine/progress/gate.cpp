#include "runtime/engine/progress/gate.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::engine {

Gate::Gate() : bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell_.is_open())
        throw Error(Status::out_of_memory, "cannot make an eventfd: " + transport::advised_text(errno));
}

void Gate::ring_bell() {
    rung_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bell_.fd(), &one, sizeof one);  // full: it rings already
}

void Gate::silence_bell() {
    if (!rung_) return;
    rung_ = false;
    std::uint64_t rings;
    [[maybe_unused]] const auto bytes =
        ::read(bell_.fd(), &rings, sizeof rings);  // if it is empty, the bell has not rung
}

// Fast path: the gate is free. Without a driver, the number of visitors is of no interest.
Gate::Visit::Visit(Gate& gate) : gate_(gate), lock_(gate.mutex_, std::try_to_lock) {
    if (lock_.owns_lock() && !gate_.driven_) return;
    if (lock_.owns_lock()) lock_.unlock();
    visiting_ = true;
    gate_.visitors_.fetch_add(1);
    lock_ = std::unique_lock(gate_.mutex_);
    if (!gate_.asleep_) return;
    gate_.ring_bell();
    gate_.changed_.wait(lock_, [&] { return !gate_.asleep_; });
}

Gate::Visit::~Visit() {
    stop_visiting();
    if (!driving_) return;
    gate_.driven_ = false;
    gate_.changed_.notify_all();
}

void Gate::Visit::stop_visiting() {
    if (!visiting_) return;
    visiting_ = false;
    if (gate_.visitors_.fetch_sub(1) == 1 && gate_.driven_) gate_.changed_.notify_all();
}

bool Gate::Visit::step_aside() {
    if (gate_.visitors_.load() == 0) return false;
    gate_.changed_.wait(lock_, [&] { return gate_.visitors_.load() == 0; });
    return true;
}

}  // namespace hocket::engine
