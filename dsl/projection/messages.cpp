#include "dsl/projection/messages.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace hocket::dsl {

std::vector<Message> messages_of(const StepGraph& graph, std::span<const HostStep> steps,
                                 const std::vector<Rank>& host, const OpBuilder& builder) {
    const auto is_here = [&](Rank rank) { return std::binary_search(host.begin(), host.end(), rank); };
    std::vector<Message> messages;
    std::map<std::pair<Rank, Rank>, std::size_t> known;
    for (const HostStep& step : steps) {
        if (is_here(step.source) == is_here(step.destination)) continue;
        const auto [entry, is_new] =
            known.try_emplace(std::pair(step.source, step.destination), messages.size());
        if (is_new) messages.push_back({step.source, step.destination, {}});
        for (const Piece& piece : pieces_of(graph, step))
            messages[entry->second].passages.push_back({builder.atoms_of(piece.from),
                                                        builder.atoms_of(piece.to), step.combines,
                                                        step.completes, step.origin});
    }
    for (Message& message : messages)
        std::stable_sort(message.passages.begin(), message.passages.end(),
                         [](const Passage& a, const Passage& b) {
                             return std::pair(a.from.begin, a.to.begin) < std::pair(b.from.begin, b.to.begin);
                         });
    return messages;
}

}  // namespace hocket::dsl
