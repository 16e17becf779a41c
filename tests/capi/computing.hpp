// Ranks that run schedules that compute, and numbers for them.
#pragma once

#include <hocket.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

// Ranks in memory, between hosts, and both. "aabb": four ranks, two on each of two hosts. topology: "" for
// the usual one.
inline void on_hosts(const std::string& hosts, const std::string& topology,
                     const std::function<void(hkt_comm*, int rank)>& body) {
    const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 180}, [&](int rank) {
        setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        options.topology = topology.empty() ? nullptr : topology.c_str();
        body(join(&options).get(), rank);
    });
    INFO(hosts << " " << topology);
    CHECK(problems(outcomes) == "");
}

// Numbers that look random, none of them twice with the same magnitude in one list.
inline float scrambled_input(std::size_t rank, std::size_t step, std::size_t i) {
    std::uint64_t bits = (rank * 1000 + step) << 32 | i;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    const float size = std::exp(static_cast<float>(bits >> 40) / static_cast<float>(1 << 22) - 2);
    return bits & 1 ? size : -size;
}

// A type's numbers as floats.
template <typename T>
float rounded(float value) {
    return static_cast<float>(static_cast<T>(value));
}

}  // namespace hocket::test
