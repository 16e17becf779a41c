#include "runtime/transport/streams/rail_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// Longer than a link's delay and a lost packet's first repetition take together.
constexpr Clock::duration first_turn = 1500ms, whole_time = 24h;

}  // namespace

Source source_of(const Rail& rail, bool bound) {
    if (!rail.here) return {};
    return {rail.here->address, bound ? rail.here->name : ""};
}

RailSearch::RailSearch(std::vector<Rail> rails, int port, bool bound) : port_(port), bound_(bound) {
    for (Rail& rail : rails) rails_.push_back({std::move(rail)});
}

Socket RailSearch::try_one(Tried& tried, const Patience& patience) const {
    return connect_to(end_of(tried), patience, tried.reasons, source_of(tried.rail, bound_));
}

Socket RailSearch::connect(const Patience& patience) {
    auto turn = rails_.size() > 1 ? first_turn : whole_time;
    for (bool is_any_silent = true; is_any_silent && !patience.is_over(); turn *= 2) {
        is_any_silent = false;
        for (std::size_t i = 0; i < rails_.size(); ++i) {
            if (rails_[i].is_given_up) continue;
            const auto now = Clock::now();
            const Patience share{patience.deadline - now > turn ? now + turn : patience.deadline,
                                 patience.abandoned};
            Socket socket = try_one(rails_[i], share);
            last_ = i;
            if (socket.is_open()) return socket;
            rails_[i].is_silent = share.is_over();
            is_any_silent |= rails_[i].is_silent;
        }
    }
    return Socket();
}

std::vector<std::string> RailSearch::silent_nics() const {
    std::vector<std::string> nics;
    for (const Tried& tried : rails_)
        if (tried.is_silent && tried.rail.here) nics.push_back(tried.rail.here->text());
    return nics;
}

bool RailSearch::give_up(const std::string& why) {
    note(why);
    rails_[last_].is_given_up = true;
    return std::any_of(rails_.begin(), rails_.end(), [](const Tried& tried) { return !tried.is_given_up; });
}

std::string RailSearch::why_not(const Tried& tried) const {
    return tried.reasons.are_known() ? tried.reasons.text() : "not tried";
}

std::string RailSearch::failure() const {
    if (rails_.size() == 1) return fmt::format("{}: {}; ", end_of(rails_[0]).text(), why_not(rails_[0]));
    std::string text = "any of its addresses";
    for (const Tried& tried : rails_)
        text +=
            fmt::format("\n  {} from {}: {}", end_of(tried).text(),
                        tried.rail.here ? tried.rail.here->text() : "where the routes say", why_not(tried));
    return text + "\n  hint: ";
}

}  // namespace hocket::transport
