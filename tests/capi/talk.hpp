// Messages of the tests of sends and receives, and the transports that carry them.
#pragma once

#include <hocket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

using Bytes = std::vector<unsigned char>;

// The bytes of a message that is known by its ends, its tag and a number.
inline Bytes contents(std::size_t bytes, int from, int to, int tag, int number = 0) {
    std::uint64_t state = static_cast<std::uint64_t>(from) * 1000003 + static_cast<std::uint64_t>(to) * 8191 +
                          static_cast<std::uint64_t>(tag) * 131 + static_cast<std::uint64_t>(number);
    Bytes all(bytes);
    for (std::size_t at = 0; at < bytes; at += sizeof state) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t mixed = state ^ state >> 32;
        std::memcpy(&all[at], &mixed, std::min(sizeof mixed, bytes - at));
    }
    return all;
}

// The messages that every rank of a test sends and receives.
struct Talk {
    hkt_comm* comm;
    int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);

    void must(hkt_status status) const { expect(status == HKT_SUCCESS, hkt_comm_last_error(comm)); }
    void send(const Bytes& bytes, int to, int tag) const {
        must(hkt_send(bytes.data(), bytes.size(), HKT_UINT8, to, tag, comm, nullptr));
    }
    hkt_request* start_send(const Bytes& bytes, int to, int tag) const {
        hkt_request* request = nullptr;
        must(hkt_send(bytes.data(), bytes.size(), HKT_UINT8, to, tag, comm, &request));
        return request;
    }
    Bytes receive(std::size_t bytes, int from, int tag) const {
        Bytes got(bytes);
        must(hkt_recv(got.data(), bytes, HKT_UINT8, from, tag, comm, nullptr));
        return got;
    }
    hkt_request* start_receive(Bytes& into, int from, int tag) const {
        hkt_request* request = nullptr;
        must(hkt_recv(into.data(), into.size(), HKT_UINT8, from, tag, comm, &request));
        return request;
    }
    void wait(hkt_request* request) const { must(hkt_wait(request)); }
};

// The path of the ranks' bytes; hosts has a letter for each rank.
struct Way {
    const char *hosts, *provider;
};
inline constexpr Way ways[] = {{"aaaa", ""}, {"abcd", ""},    {"aabb", ""},
                               {"abbb", ""}, {"aaaa", "tcp"}, {"aaaa", "ofi+tcp"}};

inline void on_every_way(int ranks, const std::function<void(const Talk&)>& body) {
    for (const Way& way : ways) {
        const auto outcomes = run_ranks(
            {ranks, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "60000"}}, 150},
            [&](int rank) {
                setenv("HOCKET_HOST_ID", std::string(1, way.hosts[rank]).c_str(), 1);
                const Comm comm = join();
                body({comm.get()});
            });
        INFO("hosts " << way.hosts << ", provider '" << way.provider << "'");
        CHECK(problems(outcomes) == "");
    }
}

}  // namespace hocket::test
