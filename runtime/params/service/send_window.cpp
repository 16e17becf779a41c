#include "runtime/params/service/send_window.hpp"

#include <algorithm>
#include <map>

namespace hocket::params {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds patience = 100ms;

// Each level takes the time of a chunk, on the way up and on the way down. And the more share the parent's
// link, the longer is a packet late that got lost there.
std::size_t size_for(const std::vector<Member>& members, Worker self) {
    std::map<Worker, Worker> parents;
    for (const Member& member : members) parents.emplace(member.worker, member.parent);
    const auto above = parents.find(self);
    if (above == parents.end()) return 0;
    std::size_t levels = 1, siblings = 0;
    for (auto node = above; node->second != the_server; node = parents.find(node->second)) ++levels;
    for (const auto& [worker, parent] : parents) siblings += parent == above->second;
    return 2 * std::max(levels, siblings) + 2;
}

}  // namespace

void SendWindow::begin(const std::vector<Member>& members, Worker self, std::size_t chunks) {
    *this = {};
    size_ = size_for(members, self);
    chunks_.resize(chunks);
}

template <typename Change>
void SendWindow::change(Chunk chunk, const Change& change) {
    if (chunk >= chunks_.size()) return;
    OfChunk& of = chunks_[chunk];
    awaited_ -= of.is_awaited();
    change(of);
    awaited_ += of.is_awaited();
}

void SendWindow::sent(const Sum& sum) {
    change(sum.chunk, [&](OfChunk& of) {
        of.sent = std::max(of.sent, sum.clock + 1);
        of.number = ++sums_;
    });
}

void SendWindow::asked(const Want& want) {
    change(want.chunk, [&](OfChunk& of) { of.asked = std::max(of.asked, want.clock); });
}

void SendWindow::came(const Weights& weights, Time now) {
    came_ = now;
    change(weights.chunk, [&](OfChunk& of) {
        of.came = std::max(of.came, weights.clock);
        latest_to_come_ = std::max(latest_to_come_, of.number);
    });
}

std::optional<SendWindow::Time> SendWindow::closed_until(Time now) {
    if (awaited_ == 0 || sums_ - latest_to_come_ < size_) {
        closed_since_.reset();
        return std::nullopt;
    }
    if (!closed_since_) closed_since_ = now;
    const Time until = std::max(*closed_since_, came_) + patience;
    return now < until ? std::optional(until) : std::nullopt;
}

}  // namespace hocket::params
