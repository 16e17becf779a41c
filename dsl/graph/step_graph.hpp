// A schedule laid out on a topology: every transfer and every computation that happens, in program order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/source.hpp"
#include "dsl/graph/computation.hpp"
#include "dsl/graph/region.hpp"
#include "dsl/graph/topology.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

struct Step {
    std::uint32_t phase;       // the steps of a phase happen at once: all read what was there before it
    std::uint32_t region;      // index into regions: what is read
    std::uint32_t target;      // what is written: mostly the same region
    Rank source, destination;  // equal if a rank moves data within its buffers
    std::uint32_t origin;      // index into origins
    std::uint32_t strand;      // index into strands
    bool combines;             // else it overwrites
    // A computation of one rank, which is both source and destination: `region` says where in x, or at the
    // same places in buffers like it, and `target` what is written.
    std::uint32_t computation = transfer;  // index into computations, or no computation
    std::uint32_t held = 0;                // of a computation: index into held

    static constexpr std::uint32_t transfer = ~std::uint32_t{0};
    bool computes() const { return computation != transfer; }
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
    // Data are in buffers, one after the other: x has the positions from 0 to 1, the result of a first
    // exchange those from 1 to 2, and so on. The collective's result is in the last buffer.
    std::int64_t buffers = 1;
    std::vector<Region> regions;
    std::vector<Step> steps;
    bool moves = false;  // some step writes to another region than it reads
    std::uint32_t phases = 0;
    std::vector<StepOrigin> origins;
    std::vector<Strand> strands{{}};
    std::vector<Choice> choices;
    std::vector<ExtraBuffer> extras;  // the i-th has the positions from first_extra + i * extra_stride on
    std::vector<Computation> computations;
    // What a rank holds of a computation's sparse terms and then of its sums: indices into regions.
    std::vector<std::vector<std::uint32_t>> held;
    std::vector<std::string> parameters;  // those that are given at each start, by index
    bool approximate = false;             // what selections leave out may be missing from the result
    bool lossy = false;                   // what states keep may be thrown away
    Span header;                          // of the schedule or algorithm
    std::string hint;                     // the likely cause if the result is wrong; may be empty
    // If x is divided by rank: the piece that is each rank's own. Empty in a graph of one rank's steps only.
    std::vector<Region> owned;
    const Region& owned_by(Rank rank) const { return owned[rank]; }

    Interval input() const { return {Rational(0), Rational(1)}; }
    Interval output() const { return {Rational(buffers - 1), Rational(buffers)}; }
    // Positions are below this.
    std::int64_t positions() const { return extras.empty() ? buffers : extras.back().begin + 1; }
    // The extra buffer that has these positions; null for x.
    const ExtraBuffer* extra_at(std::int64_t buffer) const {
        return buffer < first_extra || extras.empty() ? nullptr
                                                      : &extras[(buffer - first_extra) / extra_stride];
    }
    // Where x begins, and the buffers like it: all are cut alike. Empty if there is nothing beside x.
    std::vector<std::int64_t> cut_like_x() const {
        std::vector<std::int64_t> begins;
        for (const ExtraBuffer& extra : extras)
            if (extra.is_like_x()) begins.push_back(extra.begin);
        if (!begins.empty()) begins.insert(begins.begin(), 0);
        return begins;
    }
    // If data change places, every buffer is cut into one piece a rank, and all pieces are cut alike;
    // otherwise 0.
    Rank pieces_alike() const {
        return moves || buffers > 1 || contract_of(collective).exchanges() ? ranks : 0;
    }
};

// What a step moves.
inline std::vector<Piece> pieces_of(const StepGraph& graph, const Step& step) {
    return pieces_of(graph.regions[step.region], graph.regions[step.target]);
}

}  // namespace hocket::dsl
