// hocket-overlap's command line.
#pragma once

#include <optional>
#include <string>

#include "runtime/overlap/planner.hpp"

namespace hocket::overlap_tool {

struct Options {
    std::string profile;
    overlap::PlanOptions planning;
    bool is_backward = false;  // only that direction
    bool json = false;
    std::string picture;  // the file to write it to; "": none
};

// Returns nothing and sets exit_code if the program should end (help, or an error that was printed).
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace hocket::overlap_tool
