// The facts common to all starts of a plan, for people: errors, recordings, traces and logs use the same
// words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hocket::record {

struct Label {
    std::string collective;          // "all_reduce", "all_reduce_v"
    std::string purpose;             // "barrier", if the collective is only a means; else ""
    std::string schedule, topology;  // "ring", "4m/2"
    std::string type;                // "float32"
    std::string op;                  // "sum"; "" if it does not combine
    int root = -1;                   // -1: no root
    bool spreads = false;            // true: from the root; false: to the root
    bool is_by_pair = false;         // each pair of ranks has a count of its own
    int ranks = 1;
    std::string source;             // the schedule's file: "schedules/ring.sched"
    std::uint64_t fingerprint = 0;  // of all ranks' steps in it

    const std::string& name() const { return purpose.empty() ? collective : purpose; }
};

// Returns, for example, "float32 sum" or "float32 from rank 2".
std::string type_text(const Label& label);

// Returns what distinguishes schedules of one name: "ring in schedules/ring.sched, fingerprint
// 0123456789abcdef".
std::string source_text(const Label& label);

// Returns, for example, "all_reduce #153 (ring on 4m/2, float32 sum, 1000 elements)" or "barrier #154 (4
// ranks)".
std::string describe(const Label& label, std::uint64_t number, std::uint64_t count);

}  // namespace hocket::record
