// Checks every definition of schedule files, on groups and topologies of many shapes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/planning/check_calls.hpp"
#include "dsl/projection/rank_program.hpp"

namespace hocket::dsl {

struct CheckOptions {
    std::vector<std::string> files;  // "my.sched", or "my.sched:name(arguments)" for what has that name
    std::map<std::string, std::string> texts;  // of files that are not read from the disk, by path
    std::vector<GivenValues> with;             // for all definitions that have such parameters
    std::vector<std::string> topologies;       // empty: the file's own, or else a set of small ones
    // Of algorithms; of schedules the numbers of ranks, if no topologies are given. Empty: 1 to 17, 32, 64,
    // and others that `where` allows.
    std::vector<Rank> group_sizes;
    // If the collective has a root, every rank is tried as root; of more than 64 ranks, both ends and the
    // middle.
    std::vector<std::string> search_path;
    bool warns = true;           // of what right definitions do not need
    double timeout = 60;         // seconds, for each definition on each group or topology
    Watcher* watcher = nullptr;  // told that it goes on; what it throws ends the check
};

// A definition that is right.
struct RightDefinition {
    std::string path;
    std::string what;   // "schedule mine all_reduce"
    std::string where;  // "on 1 2 3", or what it calculates
};
std::string text_of(const RightDefinition& definition);

// Receives results as they are found. Exceptions that these functions throw are passed on.
struct CheckListener {
    std::function<void(const RightDefinition& definition)> right;
    // Errors, each message at a place once, and warnings of the definitions that were checked. Those of a
    // file come once all that was checked of it has been right.
    std::function<void(const Report& report)> report;
};

struct CheckResult {
    int right = 0, wrong = 0;
    int not_looked_at = 0;  // of the wrong ones: no definitions, but files and names that are not there
    int warnings = 0;
};

CheckResult check_files(const CheckOptions& options, const CheckListener& listener);

}  // namespace hocket::dsl
