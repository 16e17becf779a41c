// Code shared by the drivers of compare-cache: clocks, random orders, threads, figures, Hocket's calls.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "capi/hocket.h"

namespace cache_peers {

using Keys = std::vector<std::uint64_t>;

inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the seconds of processor time of all threads of this process, including time in the kernel.
inline double processor_time() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

inline Keys permutation(std::uint64_t count, std::uint64_t seed) {
    Keys keys(count);
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(seed));
    return keys;
}

// xorshift64*: takes only a few cycles, for loops that are timed.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
    std::uint64_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545f4914f6cdd1d;
    }
    std::uint64_t below(std::uint32_t limit) { return ((next() >> 32) * limit) >> 32; }

  private:
    std::uint64_t state_;
};

// Runs call(thread) on this many threads at once, including this one. Rethrows the first exception.
inline void on_threads(unsigned threads, const std::function<void(unsigned)>& call) {
    std::vector<std::exception_ptr> errors(threads);
    const auto run = [&](unsigned thread) {
        try {
            call(thread);
        } catch (...) {
            errors[thread] = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        for (unsigned thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
        run(0);
    }
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

inline void check(hkt_status status, const char* call) {
    if (status == HKT_SUCCESS) return;
    throw std::runtime_error(std::string(call) + ": " + hkt_last_error());
}

// A hypervisor may reclaim memory that has not been touched for long, and return it only when it is touched,
// at some 300 MiB a second. So all ways to read touch it before the clock starts.
inline void have_memory_backed(std::uint64_t bytes) {
    constexpr std::uint64_t page = 4096;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("out of memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    for (std::uint64_t at = 0; at < bytes; at += page) static_cast<volatile char*>(memory)[at] = 1;
    munmap(memory, bytes);
}

// An open cache. Errors are thrown with the text of hkt_last_error().
class Cache {
  public:
    explicit Cache(const hkt_cache_options& options) {
        check(hkt_cache_open(&options, &cache_), "hkt_cache_open");
    }
    ~Cache() { hkt_cache_close(cache_); }
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    operator hkt_cache*() const { return cache_; }

    // The caller must release the samples.
    void get_batch(const std::uint64_t* keys, std::size_t count, hkt_sample* samples) {
        check(hkt_cache_get_batch(cache_, keys, count, samples, nullptr), "hkt_cache_get_batch");
    }
    hkt_request* start_batch(const std::uint64_t* keys, std::size_t count, hkt_sample* samples) {
        hkt_request* request = nullptr;
        check(hkt_cache_get_batch(cache_, keys, count, samples, &request), "hkt_cache_get_batch");
        return request;
    }
    void release(const std::vector<hkt_sample>& samples, std::size_t count) {
        hkt_cache_release(cache_, samples.data(), count);
    }
    void set_order(const Keys& keys) {
        check(hkt_cache_set_order(cache_, keys.data(), keys.size(), 0), "hkt_cache_set_order");
    }
    hkt_cache_stats stats() const {
        hkt_cache_stats stats;
        check(hkt_cache_get_stats(cache_, &stats, sizeof stats), "hkt_cache_get_stats");
        return stats;
    }

  private:
    hkt_cache* cache_ = nullptr;
};

// Writes a figure for compare-cache as a line of JSON, without delay.
inline void print_line(const std::string& line) {
    if (std::printf("%s\n", line.c_str()) < 0 || std::fflush(stdout) != 0)
        throw std::runtime_error("a figure could not be written to stdout");
}

// Runs the body of a driver's main(): if it fails, the exit code is 1 and stderr has the text.
inline int guarded(const char* driver, const std::function<void()>& run) {
    try {
        run();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", driver, error.what());
        return 1;
    }
}

}  // namespace cache_peers
