// The messages of a phase: what one rank sends another in it, however many pieces that has, is one message.
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

// Of these steps, all of one phase: the messages that the host sends or gets, in the order in which the steps
// name their two ranks first. Both ends have the pieces in one order: by where they come from, so that those
// side by side there can make one part. host: ascending.
std::vector<Message> messages_of(const StepGraph& graph, std::span<const HostStep> steps,
                                 const std::vector<Rank>& host, const OpBuilder& builder);

}  // namespace hocket::dsl
