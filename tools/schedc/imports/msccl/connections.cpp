#include "tools/schedc/imports/msccl/connections.hpp"

#include <fmt/format.h>

namespace hocket::tools::imports::msccl {
namespace {

// One threadblock alone may have an end: the order of its steps is the order of messages.
void add_end(const Program& program, std::vector<Place>& ends, const Place& place, const char* what) {
    if (!ends.empty() && ends.back().block != place.block)
        refuse(program.algorithm, place,
               fmt::format("threadblock {} {} on the same connection: which message comes first is not known",
                           ends.back().block, what),
               "give one of the two threadblocks another chan=\"...\", on both GPUs");
    ends.push_back(place);
}

int count_of(const Program& program, const Place& place) {
    return program.blocks[place.gpu][place.block].steps[place.step].count;
}

void check_ends(const Program& program, const Connection& connection, const Ends& ends) {
    const auto& [from, to, channel] = connection;
    for (std::size_t i = 0; i < std::min(ends.senders.size(), ends.receivers.size()); ++i) {
        const int sent = count_of(program, ends.senders[i]);
        const int received = count_of(program, ends.receivers[i]);
        if (sent != received)
            refuse(
                program.algorithm, ends.receivers[i],
                fmt::format("it receives {} chunk{}, but its sender, {}, sends {}", received,
                            received == 1 ? "" : "s", short_text(program.algorithm, ends.senders[i]), sent),
                "write the same cnt=\"...\" in both steps");
    }
    if (ends.senders.size() > ends.receivers.size())
        refuse(program.algorithm, ends.senders[ends.receivers.size()],
               fmt::format(
                   "it sends to gpu {} on channel {}, which receives {} message{} of gpu {} there, not {}",
                   to, channel, ends.receivers.size(), ends.receivers.size() == 1 ? "" : "s", from,
                   ends.senders.size()),
               fmt::format("gpu {} needs a step that receives it, in a <tb> with recv=\"{}\" and chan=\"{}\"",
                           to, from, channel));
    if (ends.receivers.size() > ends.senders.size())
        refuse(program.algorithm, ends.receivers[ends.senders.size()],
               fmt::format(
                   "it receives from gpu {} on channel {}, which sends {} message{} to gpu {} there, not {}",
                   from, channel, ends.senders.size(), ends.senders.size() == 1 ? "" : "s", to,
                   ends.receivers.size()),
               fmt::format("gpu {} needs a step that sends it, in a <tb> with send=\"{}\" and chan=\"{}\"",
                           from, to, channel));
}

}  // namespace

std::map<Connection, Ends> connect(const Program& program) {
    std::map<Connection, Ends> connections;
    for (int g = 0; g < program.algorithm.ranks(); ++g)
        for (int b = 0; b < static_cast<int>(program.blocks[g].size()); ++b) {
            const Threadblock& block = program.blocks[g][b];
            for (int s = 0; s < static_cast<int>(block.steps.size()); ++s) {
                const StepType& type = *block.steps[s].type;
                const Place place{g, b, s};
                if (type.sends)
                    add_end(program, connections[{g, block.send, block.channel}].senders, place, "sends");
                if (type.receives)
                    add_end(program, connections[{block.receive, g, block.channel}].receivers, place,
                            "receives");
            }
        }
    for (const auto& [connection, ends] : connections) check_ends(program, connection, ends);
    return connections;
}

}  // namespace hocket::tools::imports::msccl
