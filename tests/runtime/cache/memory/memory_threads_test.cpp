// The memory level under many threads: every sample has its own bytes, is loaded by one of the threads that
// want it at once, and reaches all of them.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "runtime/cache/memory/memory.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t shared_keys = 400, shared_capacity = 150 * 1024;
constexpr unsigned thread_count = 8;

std::uint64_t shared_size_of(std::uint64_t key) {
    return 8 * (1 + key * 7 % 200);
}

// Threads that ask for a sample wait here.
class Inbox : public Waiter {
  public:
    void have(std::size_t, const Lent& lent) override {
        const std::lock_guard lock(mutex_);
        lent_ = lent;
        is_done_ = true;
        changed_.notify_all();
    }
    void failed(std::size_t, const Error&) override {
        const std::lock_guard lock(mutex_);
        is_done_ = true;
        changed_.notify_all();
    }
    std::optional<Lent> wait() {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, 60s, [&] { return is_done_; })) std::abort();
        return lent_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_done_ = false;
    std::optional<Lent> lent_;
};

// Notifies threads that wait for room that there may be some.
class Room {
  public:
    void told() {
        const std::lock_guard lock(mutex_);
        ++times_;
        changed_.notify_all();
    }
    std::uint64_t times() {
        const std::lock_guard lock(mutex_);
        return times_;
    }
    bool wait_beyond(std::uint64_t times) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, 60s, [&] { return times_ > times; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t times_ = 0;
};

struct Shared {
    Memory memory{shared_capacity};
    Room room;
    std::atomic<int> loading[shared_keys]{}, wrong{0}, hits{0}, loads{0}, failures{0}, rounds{0};

    Block reserve(std::uint64_t bytes) {
        for (;;) {
            const std::uint64_t times = room.times();
            if (const auto block = memory.reserve(bytes)) return *block;
            if (!room.wait_beyond(times)) std::abort();
        }
    }
    void load(std::uint64_t key, bool may_fail) {
        wrong += loading[key]++ != 0;
        const Block block = reserve(shared_size_of(key) + 700);
        std::vector<std::uint64_t> words(shared_size_of(key) / 8, key);
        std::memcpy(block.data, words.data(), shared_size_of(key));
        ++loads;
        --loading[key];
        if (may_fail) {
            memory.free(block);
            return memory.fail(key, Error(Status::io, "gone"));
        }
        if (const auto kept = memory.publish(key, block, shared_size_of(key), key % 2 == 0, key % 3 == 0))
            memory.release(*kept);
    }
    bool is_right(const Lent& lent, std::uint64_t key) const {
        std::vector<std::uint64_t> words(shared_size_of(key) / 8, key);
        return lent.key == key && lent.bytes == shared_size_of(key) &&
               std::memcmp(lent.data, words.data(), lent.bytes) == 0;
    }
    void get(std::uint64_t key, bool may_fail, std::vector<Lent>& lent) {
        Inbox inbox;
        Lent now;
        const auto answer = memory.get(key, inbox, 0, now);
        if (answer == Memory::Answer::must_load) load(key, may_fail);
        if (answer == Memory::Answer::lent) {
            ++hits;
            lent.push_back(now);
        } else if (const auto later = inbox.wait()) {
            lent.push_back(*later);
        } else {
            ++failures;
            return;
        }
        wrong += !is_right(lent.back(), key);
    }
};

void work(Shared& shared, unsigned seed, int rounds) {
    std::mt19937_64 random(seed);
    std::vector<Lent> lent;
    const auto release = [&] {
        for (const Lent& each : lent) shared.memory.release(each);
        lent.clear();
    };
    for (int round = 0; round < rounds; ++round) {
        ++shared.rounds;
        const std::uint64_t key = random() % (random() % shared_keys + 1);
        const auto what = random() % 100;
        // A thread does not wait for others while it holds more than its share of the memory.
        if (lent.size() >= 3) release();
        if (what < 80)
            shared.get(key, what < 3, lent);
        else if (what < 95 && shared.memory.begin_load(key))
            shared.load(key, false);
        else if (what == 99)
            shared.wrong += shared.memory.stats().used > shared_capacity;
        else
            shared.wrong += shared.memory.cursor() > 4 * shared_keys;
    }
    release();
}

}  // namespace

TEST_CASE("eight threads get, load, release and set orders, and nothing is torn or lost") {
    Shared shared;
    std::atomic<int> progress{0};
    shared.memory.on_room([&] { shared.room.told(); });
    shared.memory.on_progress(16, [&] { ++progress; });
    std::vector<std::thread> threads;
    constexpr int orders = 100, rounds = 6000;
    for (unsigned t = 0; t < thread_count; ++t) threads.emplace_back([&, t] { work(shared, t + 1, rounds); });
    std::mt19937_64 random(9);
    std::vector<std::uint64_t> epoch(shared_keys), keys;
    std::iota(epoch.begin(), epoch.end(), 0);
    for (int i = 0; i < orders; ++i) {
        keys.clear();
        for (int round = i % 4; round > 0; --round) {
            std::shuffle(epoch.begin(), epoch.end(), random);
            keys.insert(keys.end(), epoch.begin(), epoch.end());
        }
        shared.memory.set_order(keys.empty() ? nullptr : std::make_shared<const Order>(keys, i));
        // Each order is there for as many gets.
        const int until = (i + 1) * (rounds * static_cast<int>(thread_count) / orders);
        CHECK(test::eventually([&] { return shared.rounds >= until; }, 60s));
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(shared.wrong == 0);
    CHECK(shared.hits > 0);
    CHECK(shared.failures > 0);
    CHECK(progress > 0);
    const Memory::Stats stats = shared.memory.stats();
    CHECK(stats.lent == 0);
    CHECK(stats.evicted > 0);
    CHECK(stats.hits == static_cast<std::uint64_t>(shared.hits));
    CHECK(shared.memory.reserve(stats.capacity));  // everything can go, and is in one piece then
    CHECK(shared.memory.stats().resident == 0);
}

TEST_CASE("a release that comes while another thread looks for room is not missed") {
    Memory memory(4096);
    Room room;
    memory.on_room([&] { room.told(); });
    memory.begin_load(1);
    Lent lent = memory.publish(1, memory.reserve(4096).value(), 4096, false, true).value();
    std::atomic<int> turn{0};
    constexpr int rounds = 20'000;
    std::thread releaser([&] {
        for (int i = 0; i < rounds; ++i) {
            while (turn.load() != 2 * i + 1) std::this_thread::yield();  // there may be few cores
            for (std::atomic<int> wait = i % 500; wait > 0; --wait) {
            }
            memory.release(lent);
        }
    });
    for (int i = 0; i < rounds; ++i) {
        ++turn;
        std::optional<Block> block;
        for (;;) {
            const std::uint64_t times = room.times();
            if ((block = memory.reserve(4096))) break;
            if (!room.wait_beyond(times)) std::abort();
        }
        memory.begin_load(1);
        lent = memory.publish(1, *block, 4096, false, true).value();
        ++turn;
    }
    releaser.join();
    memory.release(lent);
    CHECK(memory.reserve(4096));
}

TEST_CASE("a thread that expects progress to a position is told, or learns that it is made, each time") {
    constexpr std::uint64_t positions = 20'000;
    Memory memory(64 * 512);
    Room progress;
    memory.on_progress(positions, [&] { progress.told(); });  // the usual step never comes
    std::vector<std::uint64_t> keys(positions);
    std::iota(keys.begin(), keys.end(), 0);
    memory.set_order(std::make_shared<const Order>(keys, 0));
    std::atomic<std::uint64_t> turn{0};
    std::thread reader([&] {
        for (std::uint64_t key = 0; key < positions; ++key) {
            while (turn.load() != key + 1) std::this_thread::yield();  // there may be few cores
            for (std::atomic<std::uint64_t> wait = key % 500; wait > 0; --wait) {
            }
            Inbox inbox;
            Lent lent;
            if (memory.get(key, inbox, 0, lent) != Memory::Answer::must_load) std::abort();
            memory.fail(key, Error(Status::io, "gone"));
        }
    });
    for (std::uint64_t key = 0; key < positions; ++key) {
        const std::uint64_t times = progress.times();
        turn = key + 1;
        if (memory.expect_progress(key + 1) && !progress.wait_beyond(times)) std::abort();
    }
    reader.join();
    CHECK(memory.cursor() == positions);
}
