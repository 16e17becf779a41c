#include "runtime/params/worker/send_window.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace hocket::params {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds patience = 100ms;

// Each tree level adds one chunk's time, on the way up and on the way down. And the more workers share the
// parent's link, the longer a packet that is lost there delays.
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

bool SendWindow::is_full_for(const Sum& next) const {
    const auto out = sums_ - latest_to_come_;
    if (out < size_ || out >= 2 * size_) return out >= size_;
    std::size_t before = 0;
    for (Chunk chunk = 0; chunk < chunks_.size(); ++chunk) {
        const OfChunk& of = chunks_[chunk];
        before +=
            of.number > latest_to_come_ && std::pair(of.sent, chunk) < std::pair(next.clock + 1, next.chunk);
    }
    return before >= size_;
}

std::optional<SendWindow::Time> SendWindow::closed_until(const Sum& next, Time now) {
    if (awaited_ == 0 || !is_full_for(next)) {
        closed_since_.reset();
        return std::nullopt;
    }
    if (!closed_since_) closed_since_ = now;
    const Time until = std::max(*closed_since_, came_) + patience;
    return now < until ? std::optional(until) : std::nullopt;
}

}  // namespace hocket::params
