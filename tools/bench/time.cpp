#include "tools/bench/time.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <fstream>
#include <string>

#include "tools/bench/comm.hpp"
#include "tools/bench/statistics.hpp"

namespace hocket::bench {
namespace {

std::int64_t now_ns() {
    static_assert(std::chrono::steady_clock::is_steady);  // CLOCK_MONOTONIC: one clock for the whole host
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Returns a positive hash that differs between two hosts; 0 if this host does not provide the facts for it.
std::int64_t clock_id() {
    std::string boot, name_space(PATH_MAX, '\0');
    if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot)) return 0;
    const ssize_t length = readlink("/proc/self/ns/time", name_space.data(), name_space.size());
    name_space.resize(length > 0 ? length : 0);
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (unsigned char byte : boot + name_space) hash = (hash ^ byte) * 0x100000001b3u;
    return static_cast<std::int64_t>(hash >> 2 | 1);
}

void reduce(hkt_comm* comm, std::vector<std::int64_t>& values, hkt_op op) {
    combine(comm, values.data(), values.size(), HKT_INT64, op, "collecting the times failed");
}

std::vector<double> differences_us(const std::vector<std::int64_t>& from,
                                   const std::vector<std::int64_t>& to) {
    std::vector<double> differences;
    for (std::size_t i = 0; i < from.size(); ++i)
        differences.push_back(static_cast<double>(to[i] - from[i]) * 1e-3);
    return differences;
}

void barrier(hkt_comm* comm) {
    check(hkt_barrier(comm), comm, "barrier failed");
}

std::vector<Timing> measure_spans(hkt_comm* comm, const Loop& loop, int plans,
                                  const std::function<void(int)>& once) {
    const std::vector<std::vector<std::int64_t>> none(plans, std::vector<std::int64_t>(loop.iterations));
    auto starts = none, ends = none;
    for (int i = -loop.warmup; i < loop.iterations; ++i)
        for (int plan = 0; plan < plans; ++plan) {
            barrier(comm);
            const std::int64_t start = now_ns();
            once(plan);
            const std::int64_t end = now_ns();
            if (i < 0) continue;
            starts[plan][i] = start;
            ends[plan][i] = end;
        }
    std::vector<Timing> timings;
    for (int plan = 0; plan < plans; ++plan)
        timings.push_back(timing_of_spans(comm, starts[plan], ends[plan]));
    return timings;
}

std::vector<Timing> measure_back_to_back(hkt_comm* comm, const Loop& loop, int plans,
                                         const std::function<void(int)>& once) {
    std::vector<std::int64_t> total_ns;
    for (int plan = 0; plan < plans; ++plan) {
        for (int i = 0; i < loop.warmup; ++i) once(plan);
        barrier(comm);  // after it, no rank is still warming up
        const std::int64_t start = now_ns();
        barrier(comm);
        for (int i = 0; i < loop.iterations; ++i) once(plan);
        total_ns.push_back(now_ns() - start);
    }
    reduce(comm, total_ns, HKT_MAX);
    std::vector<Timing> timings(plans);
    for (int plan = 0; plan < plans; ++plan)
        timings[plan].time_us = static_cast<double>(total_ns[plan]) * 1e-3 / loop.iterations;
    return timings;
}

}  // namespace

bool share_clock(hkt_comm* comm) {
    const std::int64_t mine = clock_id();
    std::vector<std::int64_t> least{mine, -mine};
    reduce(comm, least, HKT_MIN);
    return least[0] == -least[1] && least[0] != 0;
}

std::vector<Timing> measure(hkt_comm* comm, const Loop& loop, int plans,
                            const std::function<void(int)>& once) {
    return loop.method == Method::span ? measure_spans(comm, loop, plans, once)
                                       : measure_back_to_back(comm, loop, plans, once);
}

Timing timing_of_spans(hkt_comm* comm, const std::vector<std::int64_t>& starts,
                       const std::vector<std::int64_t>& ends) {
    auto first_starts = starts, last_starts = starts, last_ends = ends;
    reduce(comm, first_starts, HKT_MIN);
    reduce(comm, last_starts, HKT_MAX);
    reduce(comm, last_ends, HKT_MAX);
    auto spans = differences_us(first_starts, last_ends);
    std::sort(spans.begin(), spans.end());
    return {median(spans), spans, median(differences_us(first_starts, last_starts))};
}

}  // namespace hocket::bench
