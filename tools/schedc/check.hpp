// schedc check: checks every definition of a file, on groups and topologies of many shapes.
#pragma once

#include <string>
#include <vector>

#include "dsl/projection/rank_program.hpp"

namespace hocket::tools {

struct CheckOptions {
    std::vector<std::string> files;
    std::vector<std::string> topologies;  // empty: a set of small ones
    std::vector<dsl::Rank> group_sizes;   // empty: 1 to 17, 32, 64, and others that `where` allows
    std::vector<std::string> search_path;
    bool quiet = false;
    double timeout = 60;  // seconds, for each definition on each group or topology
};

// Prints a line for each definition, or its diagnostic. 0 if all are right, else 1.
int run_check(const CheckOptions& options);

}  // namespace hocket::tools
