#include "runtime/params/worker/joining.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace hocket::params {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds time_for_others_to_join = 2s, pause_before_it_asks_again = 50ms;

// Returns the first of them, for people.
std::string named(const std::vector<Worker>& workers) {
    constexpr std::size_t most = 8;
    const auto end = workers.begin() + static_cast<std::ptrdiff_t>(std::min(workers.size(), most));
    return fmt::format("{}{}", fmt::join(workers.begin(), end, ", "),
                       workers.size() > most ? fmt::format(" and {} more", workers.size() - most) : "");
}

}  // namespace

// Sets the text for the error in case joining takes too long.
void Joining::postponed() {
    std::string why;
    for (std::size_t server = 0; server < upstreams_.size(); ++server) {
        const auto& awaited = upstreams_[server]->awaited();
        if (awaited.empty()) continue;
        why = fmt::format(
            "server {} ({}) was replaced, and before it takes in new workers it waits until worker{} {} "
            "come{} back, or return_ms is over (--return-ms of hocket-params serve)",
            server, upstreams_[server]->at(), awaited.size() == 1 ? "" : "s", named(awaited),
            awaited.size() == 1 ? "s" : "");
        break;
    }
    requests_.postpone(std::move(why));
}

// Joins all servers at the latest of the rounds that they have reserved.
void Joining::reserved() {
    postponed();
    for (const auto& upstream : upstreams_)
        if (!upstream->is_reserved()) return;
    if (const std::string why = torn(); !why.empty()) {
        if (!asks_again()) failed_(why);
        return;
    }
    Clock first = 0;
    for (const auto& upstream : upstreams_) first = std::max(first, upstream->first());
    begin_(first);
}

// While another worker takes part at one server but not yet at another, the servers' starting points seem not
// to fit together. So this asks again for a while.
bool Joining::asks_again() {
    const bool is_joining = std::any_of(upstreams_.begin(), upstreams_.end(),
                                        [](const auto& upstream) { return upstream->begun().is_accepted; });
    if (!asks_until_) asks_until_ = transport::Clock::now() + time_for_others_to_join;
    if (!is_joining || transport::Clock::now() > *asks_until_) return false;
    loop_.at(transport::Clock::now() + pause_before_it_asks_again, [this] {
        for (const auto& upstream : upstreams_) upstream->reserve_again();
    });
    return true;
}

// Describes the problem if the servers continue from checkpoints that do not fit together and no worker can
// push what they lack; otherwise returns "".
std::string Joining::torn() const {
    const auto round_of = [](const auto& upstream) { return upstream->begun().round; };
    const bool is_new = std::any_of(upstreams_.begin(), upstreams_.end(),
                                    [](const auto& upstream) { return !upstream->begun().is_accepted; });
    const bool fit = std::all_of(upstreams_.begin(), upstreams_.end(), [&](const auto& upstream) {
        return round_of(upstream) && round_of(upstream) == round_of(upstreams_[0]);
    });
    if (!is_new || fit) return "";
    std::string text =
        "the servers go on from different rounds, and no worker has come back that could push the missing "
        "updates:";
    std::optional<Clock> common;
    for (std::size_t server = 0; server < upstreams_.size(); ++server) {
        const Upstream::Begun& begun = upstreams_[server]->begun();
        text += fmt::format(
            "\n  server {} ({}) {}; it has whole checkpoints of {}", server, upstreams_[server]->at(),
            begun.round ? fmt::format("has all rounds below {}", *begun.round)
                        : "has some rounds in a part only",
            begun.whole_rounds.empty() ? "none" : fmt::format("{}", fmt::join(begun.whole_rounds, ", ")));
    }
    for (const Clock round : upstreams_[0]->begun().whole_rounds)
        if (std::all_of(upstreams_.begin(), upstreams_.end(), [&](const auto& upstream) {
                const auto& rounds = upstream->begun().whole_rounds;
                return std::find(rounds.begin(), rounds.end(), round) != rounds.end();
            }))
            common = round;
    if (common)
        text += fmt::format(
            "\n  all of them go back to round {0} if they are started again with --restore --round {0}",
            *common);
    return text + "\n  they go on as they are if they are started again with --restore --accept-torn";
}

void Joining::joined() {
    if (++joined_count_ < upstreams_.size()) return;
    requests_.has_joined();
}

}  // namespace hocket::params
