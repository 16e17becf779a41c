// Prints the time of a get of a resident sample, with its release: random keys, without an order and in the
// order that is set, from one thread and from several at once. Also prints the time of a miss that evicts.
// Figures are nanoseconds of one thread: the median of single gets, less the time of reading the clock, and
// the mean of batches of 64.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/cache/memory/memory.hpp"

using namespace hocket::cache;
using Clock = std::chrono::steady_clock;

namespace {

struct Nobody : Waiter {
    void have(std::size_t, const Lent&) override {}
    void failed(std::size_t, const hocket::Error&) override {}
};

struct Options {
    std::vector<std::uint64_t> samples{10'000, 1'000'000};
    std::vector<unsigned> threads{1, 2, 4};
    std::uint64_t gets = 2'000'000;  // a thread
};

constexpr std::size_t batch = 64;

double ns_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

void fill(Memory& memory, std::uint64_t samples, std::uint64_t first = 0) {
    for (std::uint64_t key = first; key < first + samples; ++key) {
        if (!memory.begin_load(key)) throw std::logic_error("the sample is there already");
        memory.publish(key, memory.reserve(64).value(), 64, false, false);
    }
}

void get_and_release(Memory& memory, std::uint64_t key) {
    Nobody nobody;
    Lent lent;
    if (memory.get(key, nobody, 0, lent) != Memory::Answer::lent)
        throw std::logic_error("the sample is not there");
    memory.release(lent);
}

struct Figures {
    double median = 0, mean = 0;
};

double middle(std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

// Takes batches of the keys, as others do, until there are no more: every second one sample by sample.
Figures measure(Memory& memory, const std::vector<std::uint64_t>& keys, std::atomic<std::size_t>& next) {
    std::vector<double> single, empty;
    double in_a_row = 0, batches = 0;
    for (std::size_t at; (at = next.fetch_add(2 * batch)) + 2 * batch <= keys.size(); ++batches) {
        const auto start = Clock::now();
        for (std::size_t i = 0; i < batch; ++i) get_and_release(memory, keys[at + i]);
        in_a_row += ns_since(start);
        for (std::size_t i = batch; i < 2 * batch; ++i) {
            const auto before = Clock::now();
            get_and_release(memory, keys[at + i]);
            single.push_back(ns_since(before));
            const auto nothing = Clock::now();
            empty.push_back(ns_since(nothing));
        }
    }
    return {middle(single) - middle(empty), in_a_row / (batches * batch)};
}

Figures measure_threads(Memory& memory, const std::vector<std::uint64_t>& keys, unsigned count) {
    std::vector<Figures> figures(count);
    std::barrier barrier(count);
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (Figures& mine : figures)
        threads.emplace_back([&] {
            barrier.arrive_and_wait();
            mine = measure(memory, keys, next);
        });
    for (std::thread& thread : threads) thread.join();
    Figures mean;
    for (const Figures& each : figures) {
        mean.median += each.median / count;
        mean.mean += each.mean / count;
    }
    return mean;
}

void compare_hits(std::uint64_t samples, unsigned threads, bool in_order, const Options& options) {
    std::mt19937_64 random(samples + threads);
    std::vector<std::uint64_t> epoch(samples), keys;
    std::iota(epoch.begin(), epoch.end(), 0);
    while (keys.size() < options.gets * threads) {
        std::shuffle(epoch.begin(), epoch.end(), random);
        keys.insert(keys.end(), epoch.begin(), epoch.end());
    }
    Memory memory(samples * 64 + 4096);
    fill(memory, samples);
    if (in_order) memory.set_order(std::make_shared<const Order>(keys, 0));
    const Figures figures = measure_threads(memory, keys, threads);
    fmt::print("{:9} {:7} {:>7} {:10.0f} {:10.0f} {:12.1f}\n", samples, threads, in_order ? "yes" : "no",
               figures.median, figures.mean,
               static_cast<double>(memory.stats().table_bytes) / static_cast<double>(samples));
}

void time_misses(std::uint64_t samples) {
    Memory memory(samples * 64);
    fill(memory, samples);
    const auto start = Clock::now();
    fill(memory, samples, samples);
    fmt::print("{:9} samples: {:5.0f} ns to load one in another's place\n", samples,
               ns_since(start) / static_cast<double>(samples));
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("How fast the cache's memory answers");
    app.add_option("--samples", options.samples, "numbers of samples")->delimiter(',');
    app.add_option("--threads", options.threads, "numbers of threads at once")->delimiter(',');
    app.add_option("--gets", options.gets, "of each thread");
    CLI11_PARSE(app, argc, argv);
    fmt::print("  samples threads  order  median ns    mean ns  table B/sample\n");
    for (const std::uint64_t samples : options.samples)
        for (const unsigned threads : options.threads)
            for (const bool in_order : {false, true}) compare_hits(samples, threads, in_order, options);
    for (const std::uint64_t samples : options.samples) time_misses(samples);
}
