// schedc synthesize: makes a schedule for a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/graph/topology.hpp"
#include "tools/schedc/waiting.hpp"

namespace hocket::tools {

struct SynthesizeRequest {
    std::string collective, topology, network;
    dsl::Rank ranks = 0, root = 0;
    std::uint64_t bytes = std::uint64_t{1} << 30;
    double seconds = 60;  // the longest that all may take
    std::string output;   // file; empty: standard output
    std::string name = "synthesized";
    bool only_bound = false;
    std::vector<std::string> search_path;
    Waiting* waiting = nullptr;  // told how far it is
};

// Throws like dsl::Synthesizer. Ctrl-C ends the search: the best so far is written. Returns 0.
int run_synthesize(const SynthesizeRequest& request);

}  // namespace hocket::tools
