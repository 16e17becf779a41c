// Checks every definition of schedule files, on groups and topologies of many shapes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dsl/projection/rank_program.hpp"

namespace hocket::dsl {

struct CheckOptions {
    std::vector<std::string> files;
    std::vector<std::string> topologies;  // empty: a set of small ones
    std::vector<Rank> group_sizes;        // empty: 1 to 17, 32, 64, and others that `where` allows
    // Where there is a root, every one is tried, or the ends and the middle of more than 64 ranks.
    std::vector<std::string> search_path;
    double timeout = 60;  // seconds, for each definition on each group or topology
};

// What was found, as it is found. What these functions throw goes through.
struct CheckListener {
    std::function<void(const std::string& line)> right;  // "my.sched: schedule mine all_reduce ... on 1 2 3"
    std::function<void(const std::string& text)> wrong;  // a diagnostic; each is told once
};

struct CheckResult {
    int right = 0, wrong = 0;  // definitions, and files that cannot be read
};

CheckResult check_files(const CheckOptions& options, const CheckListener& listener);

}  // namespace hocket::dsl
