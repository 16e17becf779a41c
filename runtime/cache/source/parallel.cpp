#include "runtime/cache/source/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/thread.hpp"

namespace hocket::cache {
namespace {

std::vector<std::thread> start_threads(std::size_t count, const std::function<void()>& body) {
    std::vector<std::thread> threads;
    threads.reserve(count);
    try {
        while (threads.size() < count) threads.push_back(start_thread("hkt-list", body));
    } catch (const Error&) {  // no more threads can be started
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
    auto others = start_threads(std::min<std::size_t>(count, threads) - (count > 0), body);
    body();
    for (std::thread& other : others) other.join();
    if (problem) std::rethrow_exception(problem);
}

}  // namespace hocket::cache
