// Makes a schedule for a network: the best of those that synthesis finds, proved and predicted.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/deadline.hpp"
#include "dsl/graph/topology.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {

struct SynthesisRequest {
    Collective collective = Collective::all_gather;
    std::string topology, network;  // as in PlanRequest and find_network()
    std::vector<std::string> search_path;
    Rank ranks = 0;           // if the topology has no text
    Rank root = 0;            // of which broadcast and reduce are predicted; the schedule is for all roots
    std::uint64_t bytes = 0;  // of x
    std::string name;         // of the schedule
    Deadline deadline = {};   // of all
    // The time until the deadline: each search may take its share of what is left.
    double seconds = std::numeric_limits<double>::infinity();
};

// What no schedule can be faster than, or for all_reduce no reduce_scatter with an all_gather behind it, and
// for all_to_all no direct messages.
struct SynthesisBound {
    double seconds = 0;
    std::vector<Rank> inside;          // the ranks inside of the cut that limits it; empty: none is known
    std::vector<std::string> leaving;  // the links by which their data leave, or what they combine comes in
    bool comes_in = false;             // the latter
};

struct Synthesized {
    std::string text;               // of the file
    std::string way;                // how it moves data, for people
    double busiest = 0;             // seconds for which the busiest link is needed, which approach the bound
    double seconds = 0;             // predicted
    std::size_t tried = 0;          // schedules that were proved and predicted
    bool in_time = true;            // all was tried that there is
    std::size_t left_out = 0;       // schedules and ways to find some that could not be had
    std::string why_left_out = {};  // of the first of them
};

class Synthesizer {
  public:
    // Throws like find_topology, find_network and Ways, and NotFoundError for a collective that cannot be
    // synthesized.
    explicit Synthesizer(SynthesisRequest request);
    ~Synthesizer();

    const Topology& topology() const;
    const Network& network() const;
    // Throws DeadlineError.
    SynthesisBound bound() const;
    // Throws DeadlineError if the time is up before there is a schedule, and the first error met if none can
    // be found.
    Synthesized synthesize();

  private:
    class Work;
    std::unique_ptr<Work> work_;
};

}  // namespace hocket::dsl
