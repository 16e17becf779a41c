// The results of hocket-tune: the fastest schedule for each size, in jobs of a certain shape. They are kept
// in a JSON file (docs/tuning.md) for later jobs of that shape.
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

// The schedule that took the least time for `bytes` of x, for x of `from` to `up_to` bytes, both included.
struct TunedRange {
    std::uint64_t from = 0, up_to = 0, bytes = 0;
    double us = 0.0;       // the time that the schedule took
    std::string schedule;  // for dsl::PlanRequest
    bool operator==(const TunedRange&) const = default;
};

// The measurements of one job. Ranges ascend and do not overlap.
using Tuning = std::map<dsl::Collective, std::vector<TunedRange>>;

// Returns null if nothing was measured. Valid as long as the tuning.
const TunedRange* find(const Tuning& tuning, dsl::Collective collective, std::uint64_t bytes);

// The conditions under which a measurement is valid; the strings are those of hkt_comm_info on rank 0.
struct JobShape {
    std::string topology, provider;
    int ranks = 1;
    auto operator<=>(const JobShape&) const = default;
};

using TuningTable = std::map<JobShape, Tuning>;

// Merges news into the table. For each shape, collectives that were measured again replace the old ones; the
// rest remains.
void merge(TuningTable& table, const TuningTable& news);

std::string text_of(const TuningTable& table);

// Throws hocket::Error(invalid_argument), which says what is wrong, if the text is not a table, is of another
// version, or contains something that text_of would not write.
TuningTable parse_tuning(const std::string& text);

// Returns nullopt if the file does not exist. Throws hocket::Error(invalid_argument) as above, and if the
// file cannot be read.
std::optional<TuningTable> read_tuning(const std::string& file);

// Creates missing folders. A reader sees the whole old table or the whole new one. If the file cannot be
// written, throws hocket::Error(invalid_argument), and the old file remains.
void write_tuning(const std::string& file, const TuningTable& table);

// Returns, on rank 0, the part of Options::tuning about jobs with as many ranks as this one, for parse_tuning
// on all ranks. Returns "" on other ranks, and if there is no such part. If the file is invalid, a warning
// goes to stderr.
std::string tuning_to_share(const Options& options);

}  // namespace hocket::engine
