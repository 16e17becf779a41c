// Step graph -> the program of one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/rank_program.hpp"
#include "dsl/proof/verify.hpp"

namespace hocket::dsl {

// Who copies among local peers: the side that reads or writes less, or always the receivers.
enum class Copying : std::uint8_t { by_either, by_receivers };

// `graph` is of a schedule that has passed verification. The rank's program is made of those of its steps
// that concern the host, and of nothing else. project decides where each piece lives (input, output, work,
// scratch), splits and merges transfers into operations, and finds what each must wait for. It fills in
// everything but the names and the fingerprint. Throws DeadlineError.
//
// host: the ranks that share memory with `rank`, itself included, ascending. Among them a transfer is a load
// by the receiver or a store by the sender; all of them must be projected with the same graph and arguments.
// completion: what the proof found to be completed, and where; without it no operation completes anything.
// copying: who moves data that are only overwritten.
RankProgram project(const StepGraph& graph, Rank rank, std::vector<Rank> host,
                    Protocol protocol = Protocol::bandwidth, const Deadline& deadline = no_deadline,
                    const Completion& completion = {}, Copying copying = Copying::by_either);
inline RankProgram project(const StepGraph& graph, Rank rank) {
    return project(graph, rank, {rank});
}

}  // namespace hocket::dsl
