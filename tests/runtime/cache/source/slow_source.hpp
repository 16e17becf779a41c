// A source that tests can observe, caches over it, and helpers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/cache.hpp"
#include "tests/runtime/cache/samples.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

using namespace hocket::cache;
using namespace std::chrono_literals;

// A source of `count` samples of up to `most` bytes that counts how often each is read.
struct Slow {
    std::uint64_t count = 100, most = 20 * KiB;
    std::chrono::microseconds delay{0};
    std::atomic<std::uint64_t> reads = 0;
    std::vector<std::atomic<int>> per_key = std::vector<std::atomic<int>>(100000);

    Status read(std::uint64_t key, Value& sample) {
        if (key >= count) return Status::not_found;
        ++reads;
        ++per_key[key];
        if (delay > 0us) std::this_thread::sleep_for(delay);
        const auto bytes = sample_bytes(key, most);
        std::byte* const to = sample.reserve(bytes.size());
        if (to == nullptr) return Status::limit;
        if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
        return Status::success;
    }
};

inline CacheOptions over(Slow& source, const std::string& folder = "") {
    CacheOptions options;
    options.folder = folder;
    options.memory_bytes = 64 * MiB;
    options.disk_bytes = 256 * MiB;
    options.dataset = "test 1";
    options.source = callback_source("test 1");
    options.read = [&source](std::uint64_t key, Value& sample) { return source.read(key, sample); };
    options.timeout = 20s;
    return options;
}

inline bool is_right(const Lent& lent, std::uint64_t key, std::uint64_t most) {
    return lent.key == key && same({lent.data, lent.bytes}, sample_bytes(key, most));
}

// The number of wrong samples: Catch's checks are for one thread.
inline int wrong_of_all(Cache& cache, const Slow& source) {
    int wrong = 0;
    for (std::uint64_t key = 0; key < source.count; ++key) {
        const Lent lent = cache.get(key);
        wrong += !is_right(lent, key, source.most);
        cache.release(lent);
    }
    return wrong;
}

inline void get_all(Cache& cache, const Slow& source) {
    CHECK(wrong_of_all(cache, source) == 0);
}

inline Status status_of(const std::function<void()>& call, std::string* text = nullptr) {
    try {
        call();
    } catch (const Error& error) {
        if (text != nullptr) *text = error.what();
        return error.status();
    }
    return Status::success;
}

}  // namespace hocket::test
