// What hocket-tune has measured: for jobs of a shape, which schedule is the fastest for which sizes. Kept in
// a file as JSON (docs/tuning.md), for later jobs of that shape.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "runtime/engine/options.hpp"

namespace hocket::engine {

// For x of `from` to `up_to` bytes, both included: the schedule that took the least time for `bytes` of x.
struct TunedRange {
    std::uint64_t from = 0, up_to = 0, bytes = 0;
    double us = 0.0;       // that it took
    std::string schedule;  // for dsl::PlanRequest
    bool operator==(const TunedRange&) const = default;
};

// What was measured in one job. Ranges ascend and don't overlap.
using Tuning = std::map<dsl::Collective, std::vector<TunedRange>>;

// Null where nothing was measured. Valid as long as the tuning.
const TunedRange* find(const Tuning& tuning, dsl::Collective collective, std::uint64_t bytes);

// What must be the same for a measurement to count: as hkt_comm_info tells them on rank 0.
struct JobShape {
    std::string topology, provider;
    int ranks = 1;
    auto operator<=>(const JobShape&) const = default;
};

using TuningTable = std::map<JobShape, Tuning>;

// Collectives that were measured anew replace the old ones, shape by shape; the rest stays.
void merge(TuningTable& table, const TuningTable& news);

std::string text_of(const TuningTable& table);

// Throws hocket::Error(invalid_argument) that says what is wrong: no table, one of another version, or one
// with anything in it that text_of would not write.
TuningTable parse_tuning(const std::string& text);

// None if there is no such file. Throws hocket::Error(invalid_argument) as above and where it cannot be read.
std::optional<TuningTable> read_tuning(const std::string& file);

// Makes the folders that are missing; a reader sees the old table or the new one, whole. Throws
// hocket::Error(invalid_argument) where it cannot be written; the old one then stays.
void write_tuning(const std::string& file, const TuningTable& table);

// On rank 0, the part of Options::tuning that is about jobs with so many ranks, for parse_tuning on all
// ranks;
// "" on the others and where there is none. What is wrong with the file is a warning on stderr.
std::string tuning_to_share(const Options& options);

}  // namespace hocket::engine
