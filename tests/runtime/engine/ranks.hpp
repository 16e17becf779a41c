// Starts the ranks of a job as processes of their own, for tests: forked before this process has any thread,
// with the environment that hocket-run would give them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/expect.hpp"

namespace hocket::test {

struct Outcome {
    int signal = 0;    // that ended the rank, or 0
    bool ok = false;   // the body returned
    std::string text;  // the exception of the body, or how the rank ended; empty if it returned or was killed
};

struct Job {
    int ranks = 2;
    std::map<std::string, std::string> environment = {};  // besides RANK, WORLD_SIZE, MASTER_*, HOCKET_SECRET
    int deadline_s = 60;                                  // after which the ranks are killed
    bool loads_libraries_once = true;  // before they are forked; otherwise each loads them, as programs do
};

// Runs body(rank) in one process a rank; returns when all have ended.
std::vector<Outcome> run_ranks(const Job& job, const std::function<void(int)>& body);

// Returns "" if all ranks are ok, else the errors, by rank.
std::string problems(const std::vector<Outcome>& outcomes);

// Memory that all ranks of jobs started later share, filled with zeros.
void* shared_memory(std::size_t bytes);

// Milliseconds on a clock that all processes share.
double now_ms();

}  // namespace hocket::test
