// hocket-tune's command line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "capi/hocket.h"

namespace hocket::tune {

struct Options {
    std::vector<hkt_collective> collectives;
    std::size_t min_bytes = 4, max_bytes = 64 << 20, factor = 8;
    double seconds = 0;         // approximate time to measure
    std::string file;           // "": where later jobs look for it
    std::string topology_file;  // measures levels, and writes this file; "": measures schedules
};

// Returns nothing and sets exit_code if the program should end (help, or an error that was printed).
std::optional<Options> parse_options(int argc, char** argv, bool quiet, int& exit_code);

// Returns the sizes min_bytes, min_bytes * factor, min_bytes * factor^2, ..., up to max_bytes.
std::vector<std::size_t> sizes_of(const Options& options);

}  // namespace hocket::tune
