// libfabric, and libraries that it loads, install signal handlers while they are loaded and opened. Signals
// are the embedder's. Restores the handlers that were in place when it was made.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace hocket::transport {

class SignalHandlersKept {
  public:
    SignalHandlersKept() {
        for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &before_[i]);
    }
    ~SignalHandlersKept() {
        for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
    }
    SignalHandlersKept(const SignalHandlersKept&) = delete;

  private:
    static constexpr std::array signals{SIGHUP, SIGINT,  SIGQUIT, SIGILL,  SIGABRT, SIGBUS,
                                        SIGFPE, SIGSEGV, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2};

    // Of two at the same time, one would take the other's intruders for the embedder's handlers.
    static inline std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock_{one_at_a_time};
    std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace hocket::transport
