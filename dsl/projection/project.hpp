// Projects a step graph to the program of one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/rank_program.hpp"
#include "dsl/proof/verify.hpp"

namespace hocket::dsl {

// The side that copies among local peers: the one that reads or writes less, or always the receivers.
enum class Copying : std::uint8_t { by_either, by_receivers };

// Makes the rank's program from the steps of a verified `graph` that concern the host, and from nothing else.
// It decides where each piece is (input, output, work, scratch), splits and merges transfers into operations,
// and finds what each must wait for. It fills in everything but the names and the fingerprint. Throws
// DeadlineError.
//
// host: the ranks that share memory with `rank`, itself included, ascending. A transfer among them is a load
// by the receiver or a store by the sender, so all of them must be projected with the same graph and
// arguments. completion: the completed places that the proof found; if empty, no operation completes
// anything. copying: the side that moves data that are only overwritten.
RankProgram project(const StepGraph& graph, Rank rank, std::vector<Rank> host,
                    Protocol protocol = Protocol::bandwidth, const Deadline& deadline = no_deadline,
                    const Completion& completion = {}, Copying copying = Copying::by_either);
inline RankProgram project(const StepGraph& graph, Rank rank) {
    return project(graph, rank, {rank});
}

}  // namespace hocket::dsl
