#include "runtime/engine/job/losses.hpp"

#include <algorithm>

namespace hocket::engine {

std::vector<int> lost_ranks(const Connections& connections) {
    if (connections.size() == 1) return {};
    const std::vector<int>& numbers = connections.options().numbers_in_recovery;
    if (const auto loss = connections.bootstrap().loss())
        connections.options().recovery->note_lost(numbers[static_cast<std::size_t>(loss->rank)]);
    const std::set<int> all = connections.options().recovery->lost();
    std::vector<int> ranks;
    for (int rank = 0; rank < connections.size(); ++rank)
        if (all.contains(numbers[static_cast<std::size_t>(rank)])) ranks.push_back(rank);
    return ranks;
}

std::optional<std::string> loss_among(const Connections& connections, const std::vector<int>& ranks) {
    const auto loss = connections.bootstrap().loss();
    const bool is_one = loss && std::find(ranks.begin(), ranks.end(), loss->rank) != ranks.end();
    return is_one ? std::optional(loss_text(*loss)) : std::nullopt;
}

bool was_given_up(const Connections& connections) {
    const auto loss = connections.bootstrap().loss();
    return loss && loss->rank == connections.rank();
}

std::set<int> may_have_gone_on(const Connections& connections) {
    const auto since = connections.bootstrap().bad_news_since();
    if (!since || transport::Clock::now() - *since <= connections.options().timeout) return {};
    // A rank whose loss was the first to be reported has not survived the failure.
    const auto loss = connections.bootstrap().reported() ? std::nullopt : connections.bootstrap().loss();
    std::set<int> numbers;
    for (int other = 0; other < connections.size(); ++other)
        if (other != connections.rank() && !(loss && loss->rank == other))
            numbers.insert(connections.options().numbers_in_recovery[static_cast<std::size_t>(other)]);
    return numbers;
}

}  // namespace hocket::engine
