// The output of hocket-bench: nccl-tests' table, and the same data as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/data.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/time.hpp"

namespace hocket::bench {

// One executor's figures for one way (out of place or in place) of one size; equal on all ranks.
struct Measurement {
    Timing timing;
    std::int64_t wrong = 0;  // elements, summed over the ranks
    std::int64_t out_of_bounds = 0;
};

struct Row {
    Layout layout;
    hkt_executor executor;
    std::string schedule;  // the schedule for this size; from the second line on, the reason. "": unknown
    Measurement out_of_place;
    std::optional<Measurement> in_place;
    std::optional<double> predicted_us = std::nullopt;  // out of place; known to rank 0

    std::vector<Measurement> ways() const;  // both, or the one that exists
    double time_us() const;                 // over both ways
};

// Decimal GB/s of the larger buffer, and of the part of it that a link must carry (nccl-tests' bus
// bandwidth).
double algorithm_bandwidth(const Layout& layout, double time_us);
double bus_bandwidth(const Layout& layout, double time_us);

class Report {
  public:
    struct About {  // the job, for the header and the JSON
        std::string version, host, provider, provider_why, topology, links, schedule, executor;
        int ranks;
        unsigned cores;  // of rank 0's host
        Method method;
    };
    // speaks: this rank prints; the others only count.
    Report(const Options& options, About about, bool speaks)
        : options_(options), about_(std::move(about)), speaks_(speaks) {}

    void print_header() const;
    void add(const Row& row);  // keeps and prints it
    void print_footer() const;
    void write_json(std::ostream& stream) const;  // throws std::runtime_error

    bool empty() const { return rows_.empty(); }
    std::int64_t wrong() const;
    std::int64_t out_of_bounds() const;

  private:
    struct Comparison {
        double ratio;  // median of JIT time / interpreter time
        std::size_t sizes, from_bytes;
    };
    Comparison compare_executors() const;
    double average_bus_bandwidth(hkt_executor executor) const;

    const Options& options_;
    About about_;
    bool speaks_;
    std::vector<Row> rows_;
};

}  // namespace hocket::bench
