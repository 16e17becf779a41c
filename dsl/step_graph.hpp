// A schedule laid out on a topology: every transfer that happens, in program order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/rank_program.hpp"
#include "dsl/region.hpp"
#include "dsl/source.hpp"
#include "dsl/topology.hpp"

namespace hocket::dsl {

struct Step {
    std::uint32_t phase;   // steps of one phase happen at once: all read what was there before it
    std::uint32_t region;  // index into regions
    Rank source, destination;
    std::uint32_t origin;  // index into origins
    std::uint32_t strand;  // index into strands
    bool combines;         // else it overwrites
};

struct StepOrigin {
    Span transfer;  // the transfer's statement
    Span call;      // the statement that ran its algorithm; empty in a schedule's own transfers
};

// One iteration of a `parallel`. Strand 0 is the schedule itself.
struct Strand {
    std::uint32_t parent = 0;
    std::uint32_t block = 0;  // running number of the `parallel`; siblings share it; 0: none
    Span span;
};

// An algorithm that the compiler chose where the schedule names none.
struct Choice {
    Span call;
    const ast::Algorithm* algorithm;
    std::string
        text;  // "reduce_scatter over gpu (8 ranks): direct 31 us; halving 52 us; ring 118 us (at 1 MiB)"
};

struct StepGraph {
    Collective collective = Collective::all_reduce;
    Rank ranks = 1;
    Rank root = 0;
    std::vector<Region> regions;
    std::vector<Step> steps;
    std::uint32_t phases = 0;
    std::vector<StepOrigin> origins;
    std::vector<Strand> strands{{}};
    std::vector<Choice> choices;
    Span header;       // of the schedule or algorithm
    std::string hint;  // what is likely to be wrong if the result is; may be empty
    // reduce_scatter and all_gather: the piece that is each rank's own. Not where the graph is of one rank
    // alone.
    std::vector<Region> owned;
    const Region& owned_by(Rank rank) const { return owned[rank]; }
};

}  // namespace hocket::dsl
