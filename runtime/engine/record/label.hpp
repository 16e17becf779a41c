// What all starts of one plan have in common, for people: errors, recordings, traces and logs say it in the
// same words.
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
    std::string op;                  // "sum"; "" if nothing is combined
    int root = -1;                   // -1: it has none
    bool spreads = false;            // from the root; otherwise it gathers to the root
    bool is_by_pair = false;         // each pair of ranks has a count of its own
    int ranks = 1;
    std::string source;             // the file that has the schedule: "schedules/ring.sched"
    std::uint64_t fingerprint = 0;  // of what all ranks do in it

    const std::string& name() const { return purpose.empty() ? collective : purpose; }
};

// "float32 sum", "float32 from rank 2"
std::string type_text(const Label& label);

// What tells schedules of one name apart: "ring in schedules/ring.sched, fingerprint 0123456789abcdef"
std::string source_text(const Label& label);

// "all_reduce #153 (ring on 4m/2, float32 sum, 1000 elements)", "barrier #154 (4 ranks)"
std::string describe(const Label& label, std::uint64_t number, std::uint64_t count);

}  // namespace hocket::record
