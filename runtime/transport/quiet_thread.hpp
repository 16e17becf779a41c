// A thread on which no signal handler runs: those are the embedder's.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace hocket::transport {

// Throws std::system_error where the system starts no more threads.
template <typename Body>
std::thread start_quiet_thread(Body body) {
    struct SignalsBlocked {
        SignalsBlocked() {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
        }
        ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
        sigset_t before{};
    } const blocked;
    return std::thread(std::move(body));
}

}  // namespace hocket::transport
