// Runs the programs of all ranks in one process, operations in a random order that their dependencies allow:
// an oracle that shares no code with the executors of programs for users.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dsl/projection/rank_program.hpp"

namespace hocket::test {

struct SimulationOptions {
    std::uint64_t count = 0;  // of x
    bool in_place = false;
    unsigned seed = 1;
    bool in_order = false;  // operations as they stand in the program, instead of as dependencies allow

    // A rank's input, by element of x; the combination of two operands; a rank's expected output (nothing: no
    // element there). Defaults: data that differ in every element, their sum, and the output that the
    // collective promises.
    std::function<std::uint64_t(dsl::Rank, std::uint64_t)> input = {};
    std::function<std::uint64_t(std::uint64_t, std::uint64_t)> fold = {};
    std::function<std::optional<std::uint64_t>(dsl::Rank, std::uint64_t)> expected = {};
    // Not null: each rank's output is stored there instead of being compared.
    std::vector<std::vector<std::uint64_t>>* results = nullptr;
};

// Returns "" if every rank ends with the expected result, no rank was stuck and the send buffers are
// untouched; else the error.
std::string simulate(const std::vector<dsl::RankProgram>& programs, const SimulationOptions& options);

// "" if all ranks can end when a send completes only together with the receive that waits for it, as large
// messages do; else how many operations are stuck. Moves no data.
std::string rendezvous(const std::vector<dsl::RankProgram>& programs);

}  // namespace hocket::test
