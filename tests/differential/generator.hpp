// Random programs of the schedule language: the same seed gives the same program on every machine. Most of
// them are right by how they are made; some are made wrong, mostly, by mutations.
#pragma once

#include <cstdint>

#include "tests/differential/program.hpp"

namespace hocket::differential {

struct GeneratorOptions {
    bool bare_blocks = true;        // { ... }
    bool part_lets_in_each = true;  // each ... { let y = x.part(0 of 2) ... }
    int mutated_percent = 30;
};

// All features, except those that HOCKET_DIFFERENTIAL_WITHOUT names: "bare-blocks,part-lets-in-each".
GeneratorOptions options_from_environment();

Program generate(std::uint64_t seed, const GeneratorOptions& options);

}  // namespace hocket::differential
