// Random schedules that are right (tests/differential), in files of their own, for ranks that run them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/graph/region.hpp"

namespace hocket::test {

struct RandomSchedule {
    std::uint64_t seed;
    dsl::Collective collective;
    std::string schedule, topology;  // with the file
    int ranks;
    dsl::Rank root;
};

struct Seeds {
    std::uint64_t first, last;
};

// "first:last" of the environment variable, if it is set.
Seeds seeds_from(const char* variable, Seeds usual);

// Schedules for 2 to most_ranks ranks, by the number of ranks. Their files lie in the folder.
std::map<int, std::vector<RandomSchedule>> random_schedules(const std::string& folder, Seeds seeds,
                                                            int most_ranks);

}  // namespace hocket::test
