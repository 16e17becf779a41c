#include "runtime/cache/workers.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/error.hpp"

namespace hocket::cache {
namespace {

// A new thread inherits the mask: there is no moment at which it could take a signal.
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
                    fmt::format("the cache could not start thread {}: {}; raise the limit of processes "
                                "(ulimit -u, pids.max of the container)",
                                name, error.code().message()));
    }
}

Workers::Workers(unsigned most) : most_(std::max(most, 1u)) {
    threads_.reserve(most_);
}

Workers::~Workers() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Workers::submit(Job& job) {
    const std::lock_guard lock(mutex_);
    if (idle_ <= queued_ && threads_.size() < most_) add_thread();
    jobs_.push(job);
    ++queued_;
    changed_.notify_one();
}

std::size_t Workers::threads() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
}

void Workers::add_thread() {
    try {
        threads_.push_back(start_thread("hkt-cache-work", [this] { work(); }));
    } catch (const Error&) {
        if (threads_.empty()) throw;  // else those there are will get to it
    }
}

void Workers::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        while (jobs_.empty() && !ending_) {
            ++idle_;
            changed_.wait(lock);
            --idle_;
        }
        if (jobs_.empty()) return;
        Job& job = jobs_.pop();
        --queued_;
        lock.unlock();
        job.run();
        lock.lock();
    }
}

}  // namespace hocket::cache
