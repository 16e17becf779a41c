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
    // If the collective has a root, every rank is tried as root; of more than 64 ranks, both ends and the
    // middle.
    std::vector<std::string> search_path;
    double timeout = 60;  // seconds, for each definition on each group or topology
};

// Receives results as they are found. Exceptions that these functions throw are passed on.
struct CheckListener {
    std::function<void(const std::string& line)> right;  // "my.sched: schedule mine all_reduce ... on 1 2 3"
    std::function<void(const std::string& text)> wrong;  // a diagnostic; each text is reported once
};

struct CheckResult {
    int right = 0, wrong = 0;  // counts definitions, and files that cannot be read
};

CheckResult check_files(const CheckOptions& options, const CheckListener& listener);

}  // namespace hocket::dsl
