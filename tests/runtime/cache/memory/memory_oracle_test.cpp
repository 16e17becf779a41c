// The memory level against an oracle that knows all samples, and looks for the next use of each by going
// through the order, and for room by going through all blocks.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "runtime/cache/memory/memory.hpp"
#include "tests/runtime/cache/memory/memory_samples.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

constexpr std::uint64_t capacity = 64 * 1024, key_count = 48;
constexpr std::uint64_t far = std::uint64_t{1} << 40;  // behind all positions

std::uint64_t size_of(std::uint64_t key) {
    std::mt19937_64 random(key);
    const std::uint64_t kind = random() % 10;
    return kind == 0 ? random() % 64 : kind == 1 ? 64 + random() % 448 : 512 + random() % 6000;
}

std::uint64_t unit_of(std::uint64_t bytes) {
    return bytes <= 448 ? 64 : 512;
}

std::uint64_t room_of(std::uint64_t bytes) {
    const std::uint64_t unit = unit_of(bytes);
    return std::max(unit, (bytes + unit - 1) / unit * unit);
}

struct Sample {
    Block block;
    bool is_copy = false, is_used = false, is_touched = false;  // touched: since it was looked at for room
    std::uint64_t used_at = 0;
    std::uint64_t next = far;
    std::optional<std::uint64_t> previous;
    std::vector<Lent> lent;

    std::uint64_t when() const { return next < far ? next : far + used_at; }
    std::pair<bool, std::uint64_t> rank() const { return {is_copy && is_used, when()}; }
};

class Oracle {
  public:
    std::map<std::uint64_t, Sample> samples;
    std::vector<std::uint64_t> order;
    std::uint64_t cursor = 0, looks = 0, first = 0;

    void place(std::uint64_t key, Sample& sample, std::uint64_t from) const {
        sample.previous.reset();
        sample.next = far;
        for (std::uint64_t p = 0; p < order.size(); ++p) {
            if (order[p] != key) continue;
            if (p < from) sample.previous = p;
            if (p >= from) sample.next = std::min(sample.next, p);
        }
    }
    void use(std::uint64_t key, bool own) {
        Sample& sample = samples.at(key);
        sample.is_used = sample.is_touched = true;
        const std::uint64_t p = sample.next;
        if (!own || p == far) return;
        if (p >= cursor && sample.previous && p - cursor >= cursor - *sample.previous) return;
        cursor = std::max(cursor, p + 1);
        place(key, sample, p + 1);
    }
    void look() {
        ++looks;
        for (auto& [key, sample] : samples) {
            if (!sample.is_touched || !sample.lent.empty()) continue;
            sample.is_touched = false;
            if (sample.next == far) sample.used_at = looks;
        }
    }
    void set_order(std::vector<std::uint64_t> keys, std::uint64_t from) {
        order = std::move(keys);
        cursor = from;
        for (auto& [key, sample] : samples) {
            const bool had_position = sample.next < far;
            place(key, sample, from);
            if (had_position) sample.used_at = sample.is_used ? looks : 0;
        }
    }
    // Returns true if this many bytes fit between the samples, except those in `without`, and the blocks in
    // `others`.
    bool fits(std::uint64_t bytes, const std::byte* base, const std::set<std::uint64_t>& without,
              const std::vector<Block>& others) const {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> taken{{capacity, 0}};
        const auto take = [&](const Block& block) { taken.emplace_back(block.data - base, block.bytes); };
        for (const auto& [key, sample] : samples)
            if (!without.contains(key)) take(sample.block);
        for (const Block& block : others) take(block);
        std::sort(taken.begin(), taken.end());
        const std::uint64_t unit = unit_of(bytes);
        std::uint64_t gap = 0;
        for (const auto& [begin, size] : taken) {
            if ((gap + unit - 1) / unit * unit + room_of(bytes) <= begin) return true;
            gap = begin + size;
        }
        return false;
    }
};

class Model {
  public:
    explicit Model(unsigned seed) : random_(seed), memory_(capacity) {
        const Block all = memory_.reserve(capacity).value();
        base_ = all.data;
        memory_.free(all);
    }
    void step() {
        const std::uint64_t what = below(100);
        if (what < 45)
            get(next_key(), true);
        else if (what < 55)
            get(below(key_count), below(2) == 0);
        else if (what < 70)
            prefetch();
        else if (what < 94)
            release_one();
        else if (what < 96)
            hold_block();
        else if (what < 98)
            free_block();
        else if (what == 98)
            set_order();
        check();
    }
    void finish() {
        while (!held_.empty()) free_block();
        for (auto& [key, sample] : oracle_.samples)
            for (; !sample.lent.empty(); sample.lent.pop_back()) memory_.release(sample.lent.back());
        CHECK(memory_.stats().lent == 0);
        CHECK(memory_.reserve(capacity).has_value());
        CHECK(memory_.stats().resident == 0);
        CHECK(evicted_ > 100);
        CHECK(refused_ > 10);
    }

  private:
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    std::uint64_t next_key() {
        const std::uint64_t at = oracle_.cursor + below(4) / 3;  // now and then one too early
        return at < oracle_.order.size() ? oracle_.order[at] : below(key_count);
    }
    void get(std::uint64_t key, bool own) {
        INFO("get " << key);
        Recorder recorder;
        Lent lent;
        const auto user = own ? Memory::User::own : Memory::User::other;
        const auto answer = memory_.get(key, recorder, key, lent, user);
        REQUIRE((answer == Memory::Answer::lent) == oracle_.samples.contains(key));
        if (answer == Memory::Answer::lent) {
            REQUIRE(is_right(lent));
            oracle_.samples[key].lent.push_back(lent);
            return oracle_.use(key, own);
        }
        REQUIRE(answer == Memory::Answer::must_load);
        // From here on the sample counts for the cursor; it has no block yet.
        Sample loading;
        oracle_.place(key, loading, oracle_.cursor);
        oracle_.samples.emplace(key, loading);
        oracle_.use(key, own);
        loading = oracle_.samples.at(key);
        oracle_.samples.erase(key);
        const auto block = reserve(size_of(key), std::nullopt);
        if (!block) {
            memory_.fail(key, Error(Status::limit, "no room"));
            REQUIRE(recorder.failures == std::vector<std::size_t>{key});
            return;
        }
        publish(key, *block, loading);
        REQUIRE(recorder.had.size() == 1);
        REQUIRE(recorder.had[0].first == key);
        oracle_.samples[key].lent.push_back(recorder.had[0].second);
        if (below(4) == 0) return;
        release(oracle_.samples[key], 0);
    }
    void prefetch() {
        const std::uint64_t at = oracle_.cursor + below(60);
        const bool in_order = at < oracle_.order.size();
        const std::uint64_t key = in_order ? oracle_.order[at] : below(key_count);
        INFO("prefetch " << key << " for " << at);
        const bool is_there = oracle_.samples.contains(key);
        REQUIRE(memory_.begin_load(key) == !is_there);
        if (is_there) return;
        Sample sample;
        oracle_.place(key, sample, oracle_.cursor);
        const auto block = reserve(size_of(key), in_order ? at : UINT64_MAX);
        if (block)
            publish(key, *block, sample);
        else
            memory_.fail(key, Error(Status::limit, "no room"));
    }
    void publish(std::uint64_t key, Block block, Sample sample) {
        REQUIRE(block.bytes == room_of(size_of(key)));
        REQUIRE(reinterpret_cast<std::uintptr_t>(block.data) % (block.bytes < 512 ? 64 : 512) == 0);
        write(block, key, size_of(key));
        sample.block = block;
        sample.is_copy = key % 3 == 0;
        oracle_.samples[key] = sample;
        const auto kept = memory_.publish(key, block, size_of(key), sample.is_copy, key % 5 == 0);
        REQUIRE(kept.has_value() == (key % 5 == 0));
        if (kept) oracle_.samples[key].lent.push_back(*kept);
    }

    // Checks that each eviction was necessary: the samples that are left are needed no later, and if one more
    // had been left there would be no room. A refused request must be impossible to satisfy.
    std::optional<Block> reserve(std::uint64_t bytes, std::optional<std::uint64_t> sooner_than) {
        const auto fits = [&](const std::set<std::uint64_t>& without) {
            return oracle_.fits(bytes, base_, without, held_);
        };
        const bool at_once = fits({});
        const auto block = memory_.reserve(bytes, sooner_than);
        if (at_once) {
            REQUIRE(block);
            return block;
        }
        oracle_.look();
        if (!block) oracle_.look();
        std::set<std::uint64_t> gone;
        auto nearest = std::pair(true, UINT64_MAX);
        for (const auto& [key, sample] : oracle_.samples) {
            if (memory_.has(key)) continue;
            REQUIRE(sample.lent.empty());
            gone.insert(key);
            nearest = std::min(nearest, sample.rank());
        }
        const auto limit = std::pair(false, std::min(sooner_than.value_or(0), far));
        REQUIRE((gone.empty() || !sooner_than || nearest > limit));
        for (const auto& [key, sample] : oracle_.samples) {
            INFO("sample " << key);
            if (gone.contains(key) || !sample.lent.empty()) continue;
            if (block)
                REQUIRE(sample.rank() <= nearest);
            else
                REQUIRE((sooner_than && sample.rank() <= limit));
        }
        if (block)
            require_minimal(gone, nearest, fits);
        else
            REQUIRE_FALSE(fits(gone));
        for (const std::uint64_t key : gone) oracle_.samples.erase(key);
        evicted_ += gone.size();
        refused_ += !block;
        return block;
    }
    template <typename Fits>
    void require_minimal(const std::set<std::uint64_t>& gone, std::pair<bool, std::uint64_t> nearest,
                         const Fits& fits) {
        bool was_needed = false;
        for (const std::uint64_t key : gone) {
            if (oracle_.samples[key].rank() != nearest) continue;
            auto others = gone;
            others.erase(key);
            was_needed |= !fits(others);
        }
        REQUIRE(was_needed);
        REQUIRE(fits(gone));
    }

    void release(Sample& sample, std::size_t i) {
        REQUIRE(is_right(sample.lent[i]));
        memory_.release(sample.lent[i]);
        sample.lent.erase(sample.lent.begin() + static_cast<std::ptrdiff_t>(i));
    }
    void release_one() {
        auto sample = oracle_.samples.lower_bound(below(key_count));
        for (; sample != oracle_.samples.end(); ++sample)
            if (!sample->second.lent.empty()) return release(sample->second, 0);
    }
    void hold_block() {
        const std::uint64_t bytes = below(3000);
        auto block = reserve(bytes, std::nullopt);
        if (!block) return;
        memory_.shrink(*block, below(bytes + 1));
        held_.push_back(*block);
    }
    void free_block() {
        if (held_.empty()) return;
        memory_.free(held_.back());
        held_.pop_back();
    }
    void set_order() {
        std::vector<std::uint64_t> keys, epoch(key_count - 8);
        std::iota(epoch.begin(), epoch.end(), 0);
        for (std::uint64_t epochs = below(4); epochs > 0; --epochs) {
            std::shuffle(epoch.begin(), epoch.end(), random_);
            keys.insert(keys.end(), epoch.begin(), epoch.end());
        }
        const std::uint64_t from = keys.empty() ? 0 : below(keys.size()) / 2;
        memory_.set_order(keys.empty() ? nullptr : order_of(keys, from));
        oracle_.set_order(keys, from);
    }
    void check() {
        REQUIRE(memory_.cursor() == oracle_.cursor);
        const Memory::Stats stats = memory_.stats();
        std::uint64_t used = 0, lent = 0;
        for (const Block& block : held_) used += block.bytes;
        for (const auto& [key, sample] : oracle_.samples) {
            used += sample.block.bytes;
            if (!sample.lent.empty()) lent += sample.block.bytes;
        }
        REQUIRE(stats.used == used);
        REQUIRE(stats.lent == lent);
        REQUIRE(stats.used <= stats.capacity);
        REQUIRE(stats.resident == oracle_.samples.size());
        REQUIRE(stats.evicted == evicted_);
    }

    std::mt19937_64 random_;
    Memory memory_;
    const std::byte* base_;
    Oracle oracle_;
    std::vector<Block> held_;
    std::uint64_t evicted_ = 0, refused_ = 0;
};

}  // namespace

TEST_CASE("what is needed furthest in the future goes, as in an oracle, and bytes stay right") {
    const unsigned seed = GENERATE(range(1u, 11u));
    Model model(seed);
    for (int step = 0; step < 4000; ++step) {
        INFO("seed " << seed << " step " << step);
        model.step();
    }
    model.finish();
}
