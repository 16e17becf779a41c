// What hocket-tune has measured: which schedule is the fastest for which sizes, in jobs of a certain shape.
// It is kept in a JSON file (docs/tuning.md) for later jobs of that shape.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "runtime/engine/job/options.hpp"

namespace hocket::engine {

// For x of `from` to `up_to` bytes, both included: the schedule that took the least time for `bytes` of x.
struct TunedRange {
    std::uint64_t from = 0, up_to = 0, bytes = 0;
    double us = 0.0;       // the time that it took
    std::string schedule;  // for dsl::PlanRequest
    bool operator==(const TunedRange&) const = default;
};

// What was measured in one job. Ranges ascend and don't overlap.
using Tuning = std::map<dsl::Collective, std::vector<TunedRange>>;

// Null if nothing was measured. Valid as long as the tuning.
const TunedRange* find(const Tuning& tuning, dsl::Collective collective, std::uint64_t bytes);

// What must be the same for a measurement to count; the strings are those of hkt_comm_info on rank 0.
struct JobShape {
    std::string topology, provider;
    int ranks = 1;
    auto operator<=>(const JobShape&) const = default;
};

using TuningTable = std::map<JobShape, Tuning>;

// For each shape, collectives that were measured again replace the old ones; the rest stays.
void merge(TuningTable& table, const TuningTable& news);

std::string text_of(const TuningTable& table);

// Throws hocket::Error(invalid_argument) that says what is wrong: the text is no table, or one of another
// version, or contains something that text_of would not write.
TuningTable parse_tuning(const std::string& text);

// None if there is no such file. Throws hocket::Error(invalid_argument) as above, and if it cannot be read.
std::optional<TuningTable> read_tuning(const std::string& file);

// Makes missing folders. A reader sees the whole old table or the whole new one. If the file cannot be
// written, throws hocket::Error(invalid_argument), and the old one stays.
void write_tuning(const std::string& file, const TuningTable& table);

// On rank 0: the part of Options::tuning about jobs with so many ranks, for parse_tuning on all ranks. "" on
// the others, and if there is none. If something is wrong with the file, a warning goes to stderr.
std::string tuning_to_share(const Options& options);

}  // namespace hocket::engine
