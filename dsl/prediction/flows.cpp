#include "dsl/prediction/flows.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace hocket::dsl {

RouteId Flows::add_route(std::span<const Hop> hops, int priority) {
    groups_.emplace_back();
    const RouteId route = sharing_.add_route(hops, priority);
    drains_.resize(sharing_.lanes());
    return route;
}

FlowId Flows::start(RouteId route, double bytes) {
    Group& group = groups_[route];
    const LaneId lane = sharing_.holder(route);
    if (group.members.empty()) group.ahead = 0;
    const Progress progress = (lane == no_lane ? 0 : progress_of(drains_[lane])) + group.ahead;
    group.members.push_back({static_cast<double>(progress + bytes), flows_});
    std::push_heap(group.members.begin(), group.members.end(), std::greater<>());
    if (lane != no_lane && group.members.front().flow == flows_) queue(route);
    sharing_.add_flows(route, 1);
    return flows_++;
}

double Flows::next() {
    settle();
    return ends_.front().time;
}

const std::vector<FlowId>& Flows::advance(double time) {
    ended_.clear();
    const double until = time + same_time * time;
    next();
    now_ = std::max(now_, time);
    while (ends_.front().time <= until) end_on(ends_.front().item, time);
    std::sort(ended_.begin(), ended_.end());
    return ended_;
}

double Flows::rate_of(RouteId route) const {
    const LaneId lane = sharing_.holder(route);
    return lane == no_lane ? 0 : sharing_.level(lane);
}

std::size_t Flows::endings() const {
    std::size_t sum = 0;
    for (const Drain& drain : drains_) sum += drain.endings.size();
    return sum;
}

// ---- Rates ---------------------------------------------------------------------------------------------

// Finds the rates, if flows came or went.
void Flows::settle() {
    sharing_.solve();
    for (const LaneId lane : sharing_.changed()) take_level(lane);
    for (const Sharing::Move& its : sharing_.moved()) move(its);
    for (const LaneId lane : late_) {
        drains_[lane].is_late = false;
        queue_lane(lane);
    }
    late_.clear();
}

void Flows::take_level(LaneId lane) {
    Drain& drain = drains_[lane];
    const double level = sharing_.level(lane);
    drain.progress = drain.is_idle ? 0 : progress_of(drain);
    drain.since = now_;
    drain.is_idle = level == Sharing::no_level;
    drain.rate = drain.is_idle ? 0 : level;
    refresh(lane);
}

// The group's progress goes on from where it was.
void Flows::move(const Sharing::Move& move) {
    Group& group = groups_[move.route];
    if (move.from != no_lane) {
        group.ahead += progress_of(drains_[move.from]);
        refresh(move.from);
    }
    group.ahead -= progress_of(drains_[sharing_.holder(move.route)]);
    queue(move.route);
}

// ---- Ends ----------------------------------------------------------------------------------------------

// Queues the group's next end at its holder.
void Flows::queue(RouteId route) {
    Group& group = groups_[route];
    const LaneId lane = sharing_.holder(route);
    std::vector<Ending>& endings = drains_[lane].endings;
    group.queued = group.members.front().end - group.ahead;
    if (endings.size() > 2 * sharing_.held(lane) + 16) forget_stale_endings(lane);
    endings.push_back({group.queued, route});
    std::push_heap(endings.begin(), endings.end(), std::greater<>());
    refresh(lane);
}

void Flows::pop(std::vector<Ending>& endings) {
    std::pop_heap(endings.begin(), endings.end(), std::greater<>());
    endings.pop_back();
}

// An ending that is not its group's next one any more, or at another lane than the one that holds it.
bool Flows::is_stale(LaneId lane, const Ending& ending) const {
    return sharing_.holder(ending.route) != lane || groups_[ending.route].queued != ending.at;
}

// Groups that move leave their endings behind, which pile up where they lie late in the heap.
void Flows::forget_stale_endings(LaneId lane) {
    std::vector<Ending>& endings = drains_[lane].endings;
    std::erase_if(endings, [&](const Ending& ending) { return is_stale(lane, ending); });
    std::make_heap(endings.begin(), endings.end(), std::greater<>());
}

void Flows::refresh(LaneId lane) {
    if (!std::exchange(drains_[lane].is_late, true)) late_.push_back(lane);
}

// Queues the lane by when its first flow ends.
void Flows::queue_lane(LaneId lane) {
    Drain& drain = drains_[lane];
    while (!drain.endings.empty() && is_stale(lane, drain.endings.front())) pop(drain.endings);
    double time = EndQueue::never;  // flows of higher priority may take all
    if (!drain.endings.empty() && drain.rate > 0) {
        const Progress left = drain.endings.front().at - drain.progress;
        time = drain.since + std::max(0.0, static_cast<double>(left / drain.rate));
    }
    ends_.set(lane, time);
}

// Ends what the lane has brought to its end by now.
void Flows::end_on(LaneId lane, double time) {
    Drain& drain = drains_[lane];
    drain.progress = progress_of(drain);
    drain.since = now_;
    const Progress reached = drain.progress + drain.rate * same_time * time;
    // The first ends by definition, whatever rounding says.
    bool is_first = true;
    while (!drain.endings.empty() && (is_first || drain.endings.front().at <= reached)) {
        const Ending ending = drain.endings.front();
        pop(drain.endings);
        if (is_stale(lane, ending)) continue;
        is_first = false;
        deadline_.check(sharing_links);
        Group& group = groups_[ending.route];
        const std::size_t before = group.members.size();
        end_members(group, reached);
        sharing_.add_flows(ending.route, static_cast<std::int32_t>(group.members.size()) -
                                             static_cast<std::int32_t>(before));
        if (!group.members.empty()) queue(ending.route);
    }
    queue_lane(lane);
}

void Flows::end_members(Group& group, Progress reached) {
    do {
        ended_.push_back(group.members.front().flow);
        std::pop_heap(group.members.begin(), group.members.end(), std::greater<>());
        group.members.pop_back();
    } while (!group.members.empty() && group.members.front().end - group.ahead <= reached);
}

}  // namespace hocket::dsl
