// The messages of a phase. All that one rank sends to another in it is one message, of one or more pieces.
#pragma once

#include <span>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/op_builder.hpp"

namespace hocket::dsl {

// A step that concerns the host.
struct HostStep : Step {
    std::uint32_t completes;  // as in Completion
};

// One piece of a message.
struct Passage {
    AtomRange from, to;  // where it is read, where it is written
    bool combines;
    std::uint32_t completes;  // as in Completion
    std::uint32_t origin;
};

struct Message {
    Rank source, destination;
    std::vector<Passage> passages;
};

// The messages that the host sends or gets in these steps, which are all of one phase. Messages are in the
// order in which the steps first name their two ranks. Both ends have the pieces in one order, by where they
// come from, so that pieces that lie side by side there can make one part. host: ascending.
std::vector<Message> messages_of(const StepGraph& graph, std::span<const HostStep> steps,
                                 const std::vector<Rank>& host, const OpBuilder& builder);

}  // namespace hocket::dsl
