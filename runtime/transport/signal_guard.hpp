// libfabric's shm provider installs handlers for some signals while it is loaded and opened. Those signals
// are the embedder's; what the provider's handlers would clean up, shm_names does. Restores the handlers that
// were in place when it was made.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

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
    static constexpr std::array signals{SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGABRT, SIGQUIT};
    std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace hocket::transport
