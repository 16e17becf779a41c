#include "tools/schedc/msccl/connections.hpp"

#include <fmt/format.h>

namespace hocket::tools::msccl {
namespace {

// One threadblock alone may have an end: the order of its steps is the order of messages.
void add_end(const Algorithm& algorithm, std::vector<Place>& ends, const Place& place, const char* what) {
    if (!ends.empty() && ends.back().block != place.block)
        refuse(algorithm, place,
               fmt::format("threadblock {} {} on the same connection: which message comes first is not known",
                           ends.back().block, what),
               "give one of the two threadblocks another chan=\"...\", on both GPUs");
    ends.push_back(place);
}

int count_of(const Algorithm& algorithm, const Place& place) {
    return algorithm.gpus[place.gpu].blocks[place.block].steps[place.step].count;
}

void check_ends(const Algorithm& algorithm, const Connection& connection, const Ends& ends) {
    const auto& [from, to, channel] = connection;
    for (std::size_t i = 0; i < std::min(ends.senders.size(), ends.receivers.size()); ++i) {
        const int sent = count_of(algorithm, ends.senders[i]);
        const int received = count_of(algorithm, ends.receivers[i]);
        if (sent != received)
            refuse(algorithm, ends.receivers[i],
                   fmt::format("it receives {} chunk{}, but its sender, {}, sends {}", received,
                               received == 1 ? "" : "s", short_text(ends.senders[i]), sent),
                   "write the same cnt=\"...\" in both steps");
    }
    if (ends.senders.size() > ends.receivers.size())
        refuse(algorithm, ends.senders[ends.receivers.size()],
               fmt::format(
                   "it sends to gpu {} on channel {}, which receives {} message{} of gpu {} there, not {}",
                   to, channel, ends.receivers.size(), ends.receivers.size() == 1 ? "" : "s", from,
                   ends.senders.size()),
               fmt::format("gpu {} needs a step that receives it, in a <tb> with recv=\"{}\" and chan=\"{}\"",
                           to, from, channel));
    if (ends.receivers.size() > ends.senders.size())
        refuse(algorithm, ends.receivers[ends.senders.size()],
               fmt::format(
                   "it receives from gpu {} on channel {}, which sends {} message{} to gpu {} there, not {}",
                   from, channel, ends.senders.size(), ends.senders.size() == 1 ? "" : "s", to,
                   ends.receivers.size()),
               fmt::format("gpu {} needs a step that sends it, in a <tb> with send=\"{}\" and chan=\"{}\"",
                           from, to, channel));
}

}  // namespace

std::map<Connection, Ends> connect(const Algorithm& algorithm) {
    std::map<Connection, Ends> connections;
    for (int g = 0; g < algorithm.ranks(); ++g)
        for (int b = 0; b < static_cast<int>(algorithm.gpus[g].blocks.size()); ++b) {
            const Threadblock& block = algorithm.gpus[g].blocks[b];
            for (int s = 0; s < static_cast<int>(block.steps.size()); ++s) {
                const StepType& type = *block.steps[s].type;
                const Place place{g, b, s};
                if (type.sends)
                    add_end(algorithm, connections[{g, block.send, block.channel}].senders, place, "sends");
                if (type.receives)
                    add_end(algorithm, connections[{block.receive, g, block.channel}].receivers, place,
                            "receives");
            }
        }
    for (const auto& [connection, ends] : connections) check_ends(algorithm, connection, ends);
    return connections;
}

}  // namespace hocket::tools::msccl
