#include "runtime/cache/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace hocket::cache {
namespace {

// Threads that are started meanwhile take no signals: those are for the embedder's own.
class NoSignals {
  public:
    NoSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

  private:
    sigset_t before_;
};

std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& body) {
    const NoSignals no_signals;
    std::vector<std::jthread> threads;
    threads.reserve(count);
    try {
        while (threads.size() < count) threads.emplace_back(body);
    } catch (const std::system_error&) {  // no more to be had
    }
    return threads;
}

}  // namespace

void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& call) {
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::exception_ptr problem;
    const auto body = [&] {
        try {
            for (std::size_t i; (i = next.fetch_add(1)) < count;) call(i);
        } catch (...) {
            next = count;
            const std::lock_guard lock(mutex);
            if (!problem) problem = std::current_exception();
        }
    };
    {
        const auto helpers = start_threads(std::min<std::size_t>(count, threads) - (count > 0), body);
        body();
    }
    if (problem) std::rethrow_exception(problem);
}

}  // namespace hocket::cache
