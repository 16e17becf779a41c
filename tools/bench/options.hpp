// hocket-bench's command line: nccl-tests' flags, and Hocket's own.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/hocket.h"
#include "tools/bench/memory.hpp"
#include "tools/bench/subject.hpp"

namespace hocket::bench {

struct Options {
    Subject subject;
    std::size_t min_bytes = 8, max_bytes = 4 << 20;
    std::size_t step_bytes = 0;  // 0: multiply by factor
    std::size_t factor = 2;
    int iterations = 20, warmup = 5;
    bool check = true;
    std::vector<hkt_type> types{HKT_FLOAT32};
    std::vector<hkt_op> ops{HKT_SUM};
    int root = 0;                                               // -1: each rank in turn
    std::vector<hkt_executor> executors{HKT_EXECUTOR_DEFAULT};  // two: interleaved
    std::string schedule, topology, provider, provider_for_all, json_file;
    std::map<std::string, double> parameters;  // that the schedule takes at each start, by name
    std::size_t further_buffers = 0;           // that it takes at each start
    bool back_to_back = false;                 // see time.hpp
    MemoryKind memory = MemoryKind::shared;    // of the buffers
    bool predict = false;
    std::string network;  // that predictions take; "": the topology's links
    bool verbose = false;
};

// Returns nothing and sets exit_code if the program should end (help, or an error that was printed).
std::optional<Options> parse_options(int argc, char** argv, bool quiet, int& exit_code);

// Returns the sizes of the table in bytes, ascending: min_bytes, ... up to max_bytes.
std::vector<std::size_t> sizes_of(const Options& options);

// Returns what to measure: the types, each with the operators that exist for it; only with the first operator
// if the collective has none.
std::vector<std::pair<hkt_type, hkt_op>> pairs_of(const Options& options);

const char* name_of(hkt_executor executor);

}  // namespace hocket::bench
