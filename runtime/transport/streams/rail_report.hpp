// What the two ends of several connections tell each other of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/transport/net/nics.hpp"

namespace hocket::transport {

// Goes over each connection that its sender still uses. Reports overtake each other on different connections,
// so what they say only grows.
struct RailReport {
    std::uint64_t lost = 0;                         // a bit for each connection that was given up
    std::array<std::uint64_t, most_lanes> taken{};  // by lane: its messages that were received whole

    void merge(const RailReport& other) {
        lost |= other.lost;
        for (std::size_t lane = 0; lane < most_lanes; ++lane)
            taken[lane] = std::max(taken[lane], other.taken[lane]);
    }
};

// What the connections with one rank have in common.
struct RailNotes {
    std::size_t lanes = 1;
    RailReport own, heard;
    std::array<std::uint64_t, most_lanes> sent{};  // by lane: its messages that the kernel has whole
    bool is_own_news = false;                      // `own` has grown, and must be said
    bool are_read = false;                         // reports of the other end are of use now
    bool must_be_heard = false;                    // and are worth keeping an unexpected message in memory

    // Returns true if the other end has given up a connection that is still in use here. What comes next may
    // be for receives of that one, so nothing is read until it is given up here, too.
    bool is_behind() const { return (heard.lost & ~own.lost) != 0; }
};

}  // namespace hocket::transport
