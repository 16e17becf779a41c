// What communications cost, fitted to what was seen of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hocket::overlap {

// A time in which one communication followed another, without a pause.
struct BusyTime {
    std::size_t communications = 1;
    std::uint64_t bytes = 0;  // of all of them
    double seconds = 0;
};

// A busy time takes latency + (communications - 1) * startup + bytes * per_byte seconds: the first of its
// communications has a latency to wait for, which the others wait for while those before them move.
struct CostLine {
    double latency = 0, startup = 0;  // seconds
    double per_byte = 0;              // seconds
    double seconds_of(const BusyTime& busy) const {
        return latency + static_cast<double>(busy.communications - 1) * startup +
               static_cast<double>(busy.bytes) * per_byte;
    }
    bool operator==(const CostLine&) const = default;
};

// The line with the smallest sum of errors, as shares of the times, whose numbers are not negative. So it
// stays where it is if some of the times are far too long. What the times do not tell apart is 0. No times:
// all is 0.
CostLine fit_cost_line(std::span<const BusyTime> times);

}  // namespace hocket::overlap
