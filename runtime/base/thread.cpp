#include "runtime/base/thread.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket {
namespace {

// Blocks all signals in this thread. A new thread inherits the mask, so there is no moment at which it could
// take one.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> body) {
    const SignalsBlocked blocked;
    try {
        return std::thread([name, body = std::move(body)] {
            pthread_setname_np(pthread_self(), name.c_str());
            body();
        });
    } catch (const std::system_error& error) {
        throw Error(Status::out_of_memory,
                    fmt::format("thread {} could not be started: {}; raise the limit of processes (ulimit "
                                "-u, pids.max of the container), or that of address space (ulimit -v)",
                                name, error.code().message()));
    }
}

}  // namespace hocket
