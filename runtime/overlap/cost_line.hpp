// Fits the cost of communications to measured times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hocket::overlap {

// A time in which communications followed each other without a pause.
struct BusyTime {
    std::size_t communications = 1;
    std::uint64_t bytes = 0;  // in total
    double seconds = 0;
};

// A busy time takes latency + (communications - 1) * startup + bytes * per_byte seconds. The first
// communication has to wait for its latency; the others wait for theirs while those before them move.
struct CostLine {
    double latency = 0, startup = 0;  // in seconds
    double per_byte = 0;              // in seconds
    double seconds_of(const BusyTime& busy) const {
        return latency + static_cast<double>(busy.communications - 1) * startup +
               static_cast<double>(busy.bytes) * per_byte;
    }
    bool operator==(const CostLine&) const = default;
};

// Returns the line with nonnegative numbers and the smallest sum of relative errors. So a few times that are
// far too long do not change it. Numbers that the times do not determine are 0; without times all are.
CostLine fit_cost_line(std::span<const BusyTime> times);

}  // namespace hocket::overlap
