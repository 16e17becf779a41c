// A schedule laid out on a topology: all its transfers and computations, in program order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/source.hpp"
#include "dsl/graph/computation.hpp"
#include "dsl/graph/promise.hpp"
#include "dsl/graph/region.hpp"
#include "dsl/graph/topology.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

struct Step {
    std::uint32_t phase;       // all steps of a phase read what was there before the phase
    std::uint32_t region;      // index into regions: the region that is read
    std::uint32_t target;      // index into regions: the region that is written, mostly the same
    Rank source, destination;  // equal if a rank moves data within its buffers
    std::uint32_t origin;      // index into origins
    std::uint32_t strand;      // index into strands
    bool combines;             // otherwise it overwrites
    // For a computation, source and destination are the rank that computes. `region` is its place in x and in
    // the buffers like x; `target` is the region that is written.
    std::uint32_t computation = transfer;  // index into computations, or `transfer`
    std::uint32_t held = 0;                // of a computation: index into StepGraph::held

    static constexpr std::uint32_t transfer = ~std::uint32_t{0};
    bool computes() const { return computation != transfer; }
};

struct StepOrigin {
    Span transfer;  // the transfer's statement
    Span call;      // the statement that ran the algorithm; empty for a schedule's own transfers
};

// One iteration of a `parallel`. Strand 0 is the schedule itself.
struct Strand {
    std::uint32_t parent = 0;
    std::uint32_t block = 0;  // number of the `parallel`, which siblings share; 0: none
    Span span;
};

// An algorithm that the compiler chose for a statement without `using`.
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
    Promise promise;  // of a collective that a file defines. Empty in a graph of one rank's steps
    // Data live in consecutive buffers: x has the positions from 0 to 1, the result of the first exchange
    // those from 1 to 2, and so on. The last buffer holds the collective's result.
    std::int64_t buffers = 1;
    std::vector<Region> regions;
    std::vector<Step> steps;
    bool moves = false;  // some step writes to a region other than the one it reads
    std::uint32_t phases = 0;
    // By phase: the number of the statement's execution. Groups that run an algorithm have phases of their
    // own, and the same numbers.
    std::vector<std::uint32_t> executions;
    std::vector<StepOrigin> origins;
    std::vector<Strand> strands{{}};
    std::vector<Choice> choices;
    std::vector<ExtraBuffer> extras;  // extras[i] begins at position extra_begin(i)
    std::vector<Computation> computations;
    // The pieces of a computation's sparse terms, and then of its sums, that a rank holds: indices into
    // regions.
    std::vector<std::vector<std::uint32_t>> held;
    std::vector<std::string> parameters;  // the parameters that get a value at each start, by index
    bool approximate = false;             // the result may lack what selections leave out
    bool lossy = false;                   // the content of states may be lost
    Span header;                          // of the schedule or algorithm
    std::string hint;                     // the likely cause if the result is wrong; may be empty
    std::vector<Span> empty_ranges;       // of loops without rounds, for errors; one at most
    // Each rank's own piece, if x is divided by rank. Empty in a graph of some ranks' steps, but for proofs.
    std::vector<Region> owned;
    const Region& owned_by(Rank rank) const { return owned[rank]; }

    Interval input() const { return {Rational(0), Rational(1)}; }
    Interval output() const { return {Rational(buffers - 1), Rational(buffers)}; }
    // Returns the upper bound of all positions.
    std::int64_t positions() const { return extras.empty() ? buffers : extras.back().begin + 1; }
    // Returns the extra buffer at these positions; null for x.
    const ExtraBuffer* extra_at(std::int64_t buffer) const { return dsl::extra_at(extras, buffer); }
    // Returns the first positions of x and of the buffers like it, which are all cut alike. Empty if there
    // are none besides x.
    std::vector<std::int64_t> cut_like_x() const {
        std::vector<std::int64_t> begins;
        for (const ExtraBuffer& extra : extras)
            if (extra.is_like_x()) begins.push_back(extra.begin);
        if (!begins.empty()) begins.insert(begins.begin(), 0);
        return begins;
    }
    // Returns the number of equally cut pieces of every buffer, one per rank, if data change places;
    // otherwise 0.
    Rank pieces_alike() const {
        return moves || buffers > 1 || promise.moves || contract_of(collective).exchanges() ? ranks : 0;
    }
    // Return the parts of x that the rank's send buffer and receive buffer hold.
    Share input_of(Rank rank) const {
        const Share share = contract_of(collective).input.of(rank == root);
        return promise.is_given() && !promise.gives[static_cast<std::size_t>(rank)] ? Share::none : share;
    }
    Share output_of(Rank rank) const {
        const Share share = contract_of(collective).output.of(rank == root);
        return promise.is_given() && !promise.gets[static_cast<std::size_t>(rank)] ? Share::none : share;
    }
};

// Returns the stretches that a step moves.
inline std::vector<Piece> pieces_of(const StepGraph& graph, const Step& step) {
    return pieces_of(graph.regions[step.region], graph.regions[step.target]);
}

}  // namespace hocket::dsl
