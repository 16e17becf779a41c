// Waits for SIGINT and SIGTERM, instead of being interrupted by them.
#pragma once

#include <chrono>
#include <csignal>

namespace hocket::tools {

// Blocks both signals for this thread and for threads that it starts, so make it before any other thread.
// After the first signal both act as usual again, so that a second one ends a program that takes too long to
// end. For one thread.
class Signals {
  public:
    Signals() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGINT);
        sigaddset(&set_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    }

    // Waits up to this long for a signal. Returns its number, also in every later call; 0 if none has come.
    int wait(std::chrono::milliseconds time) {
        if (signal_ != 0) return signal_;
        const timespec wait{time.count() / 1000, time.count() % 1000 * 1'000'000};
        const int signal = sigtimedwait(&set_, nullptr, &wait);
        if (signal <= 0) return 0;
        signal_ = signal;
        pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
        return signal_;
    }

  private:
    sigset_t set_;
    int signal_ = 0;
};

}  // namespace hocket::tools
