// libfabric, and libraries that it loads, install signal handlers when they are loaded and opened. But
// signals belong to the embedder. A guard restores the handlers that were in place when it was made.
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

    // If two guards existed at a time, one could mistake handlers that libfabric has just installed for the
    // embedder's.
    static inline std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock_{one_at_a_time};
    std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace hocket::transport
