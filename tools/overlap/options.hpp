// hocket-overlap's command line.
#pragma once

#include <optional>
#include <string>

#include "runtime/overlap/planner.hpp"

namespace hocket::overlap_tool {

struct Options {
    std::string profile;
    overlap::PlanOptions planning;
    bool is_backward = false;  // that direction alone
    bool json = false;
    std::string picture;  // the file for it; "": none
};

// Returns nothing and sets exit_code if the program is to end (help, or an error that it has printed).
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace hocket::overlap_tool
