// The messages of a phase. All that one rank sends to another in a phase is one message of one or more
// pieces.
#pragma once

#include <span>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/host_steps.hpp"
#include "dsl/projection/op_builder.hpp"

namespace hocket::dsl {

// One piece of a message.
struct Passage {
    AtomRange from, to;  // the atoms that are read, and those that are written
    bool combines;
    std::uint32_t completes;  // as Completion::by_step
    std::uint32_t origin;
};

struct Message {
    Rank source, destination;
    std::vector<Passage> passages;
};

// Returns the messages that the host's ranks send or receive in these steps, which all belong to one phase.
// Messages are in the order in which the steps first name their two ranks. Sender and receiver order the
// pieces by their source places, so that pieces that are adjacent there can form one part. host: ascending.
std::vector<Message> messages_of(const StepGraph& graph, std::span<const HostStep> steps,
                                 const std::vector<Rank>& host, const OpBuilder& builder);

}  // namespace hocket::dsl
