#include "dsl/prediction/sharing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace hocket::dsl {
namespace {

// Relative. Rates that differ by less are the same; what is less than this part of a link is nothing.
constexpr double same_rate = 1e-13, nothing_left = 1e-12;
constexpr double certified_to = 1e-9;  // relative

bool is_more(double rate, double than) {
    return rate > than * (1 + same_rate);
}

}  // namespace

Sharing::Sharing(const std::vector<double>& rates, bool certifies, const Deadline& deadline)
    : certifies_(certifies), deadline_(deadline), rates_(rates), lanes_of_link_(rates.size()) {
    for (const double rate : rates)
        if (!(rate > 0) || std::isinf(rate)) throw std::invalid_argument("a link without a rate");
}

// ---- Routes and flows ---------------------------------------------------------------------------------

RouteId Sharing::add_route(std::span<const Hop> hops, int priority) {
    if (hops.empty()) throw std::invalid_argument("a route without links");
    Group& group = groups_.emplace_back();
    group.first_hop = hops_.size();
    group.hops = static_cast<std::uint32_t>(hops.size());
    for (const Hop& hop : hops) hops_.push_back({lane_of(hop.link, priority), number_of_share(hop.share)});
    positions_.resize(hops_.size());
    holders_.push_back(no_lane);
    return static_cast<RouteId>(groups_.size() - 1);
}

std::uint32_t Sharing::number_of_share(double share) {
    const auto [entry, is_new] =
        share_numbers_.try_emplace(share, static_cast<std::uint32_t>(shares_.size()));
    if (is_new) shares_.push_back(share);
    return entry->second;
}

LaneId Sharing::lane_of(LinkId link, int priority) {
    std::vector<LaneId>& lanes = lanes_of_link_[link];
    const auto place =
        std::find_if(lanes.begin(), lanes.end(), [&](LaneId id) { return lanes_[id].priority <= priority; });
    if (place != lanes.end() && lanes_[*place].priority == priority) return *place;
    const auto id = static_cast<LaneId>(lanes_.size());
    Lane& lane = lanes_.emplace_back();
    lane.link = link;
    lane.priority = priority;
    lane.priority_number = number_of(priority);
    lane.capacity = rates_[link];
    if (place != lanes.end()) lane.below = *place;
    if (place != lanes.begin()) {
        Lane& above = lanes_[*std::prev(place)];
        above.below = id;
        lane.capacity = left_of(above);
    }
    lanes.insert(place, id);
    return id;
}

// Returns its index into touched_.
std::uint32_t Sharing::number_of(int priority) {
    const auto place = std::find_if(priorities_.begin(), priorities_.end(),
                                    [&](const Priority& other) { return other.value <= priority; });
    if (place != priorities_.end() && place->value == priority) return place->number;
    const auto number = static_cast<std::uint32_t>(touched_.size());
    priorities_.insert(place, {priority, number});
    touched_.emplace_back();
    return number;
}

void Sharing::add_flows(RouteId route, std::int32_t flows) {
    Group& group = groups_[route];
    if (group.flows == 0) join(route);
    const LaneId holder = holders_[route];
    const double rate = group.is_open ? 0 : lanes_[holder].level;
    for (const LaneHop& hop : hops_of(group)) {
        Lane& lane = lanes_[hop.lane];
        const double share = shares_[hop.share];
        if (group.is_open || hop.lane == holder) {
            lane.weight += flows * share;
        } else {
            lane.others -= static_cast<long double>(group.flows * share) * rate;
            lane.others += static_cast<long double>((group.flows + flows) * share) * rate;
        }
        touch(hop.lane);
    }
    group.flows += flows;
    if (!group.is_open) held_of(route).flows = group.flows;
    if (group.flows == 0) leave(route);
}

// New flows are open.
void Sharing::join(RouteId route) {
    Group& group = groups_[route];
    group.is_open = true;
    for (std::uint32_t i = 0; i < group.hops; ++i) {
        Lane& lane = lanes_[hops_[group.first_hop + i].lane];
        positions_[group.first_hop + i] = static_cast<std::uint32_t>(lane.groups.size());
        lane.groups.push_back({route, i});
        lane.open.push_back(route);
        ++lane.growing;
    }
}

void Sharing::leave(RouteId route) {
    Group& group = groups_[route];
    const LaneId holder = holders_[route];
    if (holder != no_lane) remove_own(route);
    for (std::uint32_t i = 0; i < group.hops; ++i) {
        const LaneId id = hops_[group.first_hop + i].lane;
        Lane& lane = lanes_[id];
        if (group.is_open || id == holder) --lane.growing;
        const std::uint32_t position = positions_[group.first_hop + i];
        const Place last = lane.groups[position] = lane.groups.back();
        positions_[groups_[last.route].first_hop + last.hop] = position;
        lane.groups.pop_back();
        if (lane.growing == 0) stop_growing(lane);
        if (lane.groups.empty()) lane.others = lane.fastest_other = 0;
    }
    group.is_open = false;
}

void Sharing::add_own(LaneId id, RouteId route) {
    Group& group = groups_[route];
    std::vector<Held>& own = lanes_[id].own;
    group.position = static_cast<std::uint32_t>(own.size());
    holders_[route] = id;
    Held& held = own.emplace_back();
    held.route = route;
    held.flows = group.flows;
    held.hops = group.hops;
    held.is_open = group.is_open;
    if (group.hops <= Held::most_hops) std::ranges::copy(hops_of(group), held.first_hops.begin());
}

void Sharing::remove_own(RouteId route) {
    std::vector<Held>& own = lanes_[std::exchange(holders_[route], no_lane)].own;
    const std::uint32_t position = groups_[route].position;
    groups_[own.back().route].position = position;
    own[position] = own.back();
    own.pop_back();
}

// Something on the lane has changed.
void Sharing::touch(LaneId id) {
    Lane& lane = lanes_[id];
    if (!std::exchange(lane.is_touched, true)) touched_[lane.priority_number].push_back(id);
}

// ---- Solving -------------------------------------------------------------------------------------------

// Each priority shares what higher ones have left.
void Sharing::solve() {
    ++solution_;
    changed_.clear();
    moved_.clear();
    to_certify_.clear();
    const std::size_t before = visits_;
    for (const Priority& priority : priorities_) {
        if (touched_[priority.number].empty()) continue;
        solve_priority(touched_[priority.number]);
        pass_down();
    }
    if (visits_ != before) ++solutions_;
    if (certifies_) certify();
}

// Levels are found from the lowest up. What a lane's level is follows from the flows that are slower, so a
// lane is right once all that is lower is. Until then its flows are open where they may become faster: each
// of their lanes counts them as its own, and is looked at before it could be too full.
void Sharing::solve_priority(std::vector<LaneId>& touched) {
    seen_.clear();
    while (true) {
        for (const LaneId id : touched) enqueue(id);
        touched.clear();
        if (queued_ == 0) break;
        const Turn turn = take_turn();
        Lane& lane = lanes_[turn.lane];
        if (turn.level != lane.queued) continue;  // it has had its turn, or needs none
        dequeue(lane);
        visit(turn.lane, turn.level);
    }
    turns_.clear();
}

// Returns a turn of the lowest level. Often many are the same, and then the last costs nothing to take.
Sharing::Turn Sharing::take_turn() {
    if (turns_.back().level > turns_.front().level)
        std::pop_heap(turns_.begin(), turns_.end(), std::greater<>());
    const Turn turn = turns_.back();
    turns_.pop_back();
    return turn;
}

// The rate at which the lane's own and open flows fill it.
double Sharing::rate_of(const Lane& lane) const {
    const long double left = lane.capacity - lane.others;
    if (lane.growing == 0) return left < -nothing_left * rates_[lane.link] ? 0 : no_level;
    return left > 0 ? static_cast<double>(left / lane.weight) : 0;
}

void Sharing::queue(LaneId id, double level) {
    Lane& lane = lanes_[id];
    if (lane.queued == no_level) ++queued_;
    lane.queued = level;
    turns_.push_back({level, id});
    std::push_heap(turns_.begin(), turns_.end(), std::greater<>());
}

void Sharing::dequeue(Lane& lane) {
    if (std::exchange(lane.queued, no_level) != no_level) --queued_;
}

void Sharing::stop_growing(Lane& lane) {
    lane.weight = 0;  // without what rounding left
    dequeue(lane);
}

// What flows take of the lane has changed. Most lanes hold nothing, and are not full.
void Sharing::recheck(LaneId id) {
    Lane& lane = lanes_[id];
    if (lane.growing > 0 || lane.level != no_level || lane.others > lane.capacity)
        touch(id);
    else if (lane.below != no_lane || certifies_)
        see(id);
}

// What the lane leaves to lower priorities may have changed.
void Sharing::see(LaneId id) {
    if (std::exchange(lanes_[id].seen_in, solution_) != solution_) seen_.push_back(id);
}

// Gives the lane its turn, unless nothing is to be done.
void Sharing::enqueue(LaneId id) {
    Lane& lane = lanes_[id];
    lane.is_touched = false;
    see(id);
    const double rate = rate_of(lane);
    if (rate == no_level) return release(id);
    const bool is_same = !lane.own.empty() && !is_more(rate, lane.level) && !is_more(lane.level, rate);
    const bool has_open = lane.growing > lane.own.size() || lane.has_opened;
    if (is_same && !has_open && !is_more(lane.fastest_other, rate)) return;
    if (rate < lane.queued) queue(id, rate);
}

void Sharing::visit(LaneId id, double turn) {
    Lane& lane = lanes_[id];
    ++visits_;
    deadline_.check(sharing_links);
    const double rate = rate_of(lane);
    if (rate == no_level) return release(id);
    if (is_more(rate, turn) && queued_ > 0 && turns_.front().level < rate) return queue(id, rate);
    if (is_more(lane.fastest_other, rate) && open_faster(id)) return touch(id);
    if (!lane.own.empty() && is_more(rate, lane.level) && open_own(id, rate)) return touch(id);
    hold(id, rate);
}

// Opens those of the lane's own flows that another lane may stop before they reach this rate. Returns whether
// there were any.
bool Sharing::open_own(LaneId id, double rate) {
    Lane& lane = lanes_[id];
    bool opens = false;
    const auto fits = [&](const Held& held, const LaneHop& hop) {
        const Lane& other = lanes_[hop.lane];
        const double more = weight_of(held.flows, hop) * (rate - lane.level);
        return hop.lane == id || other.capacity - other.others - rate * other.weight >= more;
    };
    for (const Held& held : lane.own) {
        if (held.is_open) continue;
        const auto hops = hops_of(held);
        deadline_.check(sharing_links, held.hops);
        if (!std::all_of(hops.begin(), hops.end(), [&](const LaneHop& hop) { return fits(held, hop); })) {
            open(held.route);
            opens = true;
        }
    }
    return opens;
}

void Sharing::open(RouteId route) {
    Group& group = groups_[route];
    held_of(route).is_open = group.is_open = true;
    const LaneId holder = holders_[route];
    const double rate = lanes_[holder].level;
    lanes_[holder].has_opened = true;
    deadline_.check(sharing_links, group.hops);
    for (const LaneHop& hop : hops_of(group)) {
        Lane& lane = lanes_[hop.lane];
        if (hop.lane != holder) {
            const double weight = weight_of(group.flows, hop);
            lane.others -= static_cast<long double>(weight) * rate;
            lane.weight += weight;
            ++lane.growing;
        }
        lane.open.push_back(route);
        recheck(hop.lane);
    }
}

// Opens flows that are faster than the lane's level would be, the fastest first: each makes the level higher.
// Returns whether there were any.
bool Sharing::open_faster(LaneId id) {
    Lane& lane = lanes_[id];
    double rate = rate_of(lane), fastest = 0;
    faster_.clear();
    deadline_.check(sharing_links, lane.groups.size());
    for (const Place& place : lane.groups) {
        const LaneId holder = holders_[place.route];
        if (holder == id || holder == no_lane || groups_[place.route].is_open) continue;
        const double its = lanes_[holder].level;
        if (is_more(its, rate))
            faster_.push_back({its, place.route});
        else
            fastest = std::max(fastest, its);
    }
    std::sort(faster_.begin(), faster_.end());
    std::size_t opened = 0;
    for (; opened < faster_.size() && is_more(faster_[opened].rate, rate); ++opened) {
        open(faster_[opened].route);
        rate = rate_of(lane);
    }
    if (opened < faster_.size()) fastest = std::max(fastest, faster_[opened].rate);
    lane.fastest_other = fastest;
    return opened > 0;
}

// The lane is full at this rate. It holds its own flows, and all that are open.
void Sharing::hold(LaneId id, double rate) {
    Lane& lane = lanes_[id];
    lane.has_opened = false;
    if (!lane.own.empty() && !is_more(rate, lane.level) && !is_more(lane.level, rate)) rate = lane.level;
    if (rate != lane.level)
        for (const Held& held : lane.own)
            if (!held.is_open) shift(held, id, lane.level, rate);
    std::vector<RouteId> open;
    open.swap(lane.open);
    for (const RouteId route : open)
        if (groups_[route].is_open) close(route, id, rate);
    open.clear();
    lane.open.swap(open);
    set_level(id, rate);
}

void Sharing::close(RouteId route, LaneId by, double rate) {
    Group& group = groups_[route];
    group.is_open = false;
    const LaneId before = holders_[route];
    if (before != by) {
        if (before != no_lane) remove_own(route);
        add_own(by, route);
        if (std::exchange(group.moved_in, solution_) != solution_) moved_.push_back({route, before});
    }
    held_of(route).is_open = false;
    deadline_.check(sharing_links, group.hops);
    for (const LaneHop& hop : hops_of(group)) {
        if (hop.lane == by) continue;
        Lane& lane = lanes_[hop.lane];
        const double weight = weight_of(group.flows, hop);
        lane.weight -= weight;
        if (--lane.growing == 0) stop_growing(lane);
        lane.others += static_cast<long double>(weight) * rate;
        lane.fastest_other = std::max(lane.fastest_other, rate);
        recheck(hop.lane);
    }
}

// A flow that is held gets another rate.
void Sharing::shift(const Held& held, LaneId by, double from, double to) {
    deadline_.check(sharing_links, held.hops);
    for (const LaneHop& hop : hops_of(held)) {
        if (hop.lane == by) continue;
        Lane& lane = lanes_[hop.lane];
        const auto weight = static_cast<long double>(weight_of(held.flows, hop));
        lane.others -= weight * from;
        lane.others += weight * to;
        lane.fastest_other = std::max(lane.fastest_other, to);
        recheck(hop.lane);
    }
}

// The lane holds nothing.
void Sharing::release(LaneId id) {
    lanes_[id].has_opened = false;
    set_level(id, no_level);
}

void Sharing::set_level(LaneId id, double level) {
    Lane& lane = lanes_[id];
    if (lane.level == level) return;
    lane.level = level;
    if (std::exchange(lane.changed_in, solution_) != solution_) changed_.push_back(id);
}

// What a lane leaves to lower priorities. What rounding leaves is nothing.
double Sharing::left_of(const Lane& lane) const {
    if (!lane.own.empty()) return 0;
    const auto left = static_cast<double>(lane.capacity - lane.others);
    return left < rates_[lane.link] * nothing_left ? 0 : left;
}

void Sharing::pass_down() {
    if (certifies_) to_certify_.insert(to_certify_.end(), seen_.begin(), seen_.end());
    for (const LaneId id : seen_) {
        lanes_[id].open.clear();
        const LaneId below = lanes_[id].below;
        if (below == no_lane) continue;
        const double left = left_of(lanes_[id]);
        if (std::exchange(lanes_[below].capacity, left) != left) touch(below);
    }
}

// ---- Checking ------------------------------------------------------------------------------------------

Sharing::Use Sharing::use_of(LaneId id) const {
    Use use;
    for (const LaneId other : lanes_of_link_[lanes_[id].link]) {
        use.fastest = 0;
        for (const Place& place : lanes_[other].groups) {
            const Group& group = groups_[place.route];
            const double rate = lanes_[holders_[place.route]].level;
            use.load += rate * weight_of(group.flows, hops_[group.first_hop + place.hop]);
            use.fastest = std::max(use.fastest, rate);
        }
        if (other == id) break;
    }
    return use;
}

// Checks all flows on the lanes that were looked at, also those whose rates were not found again.
void Sharing::certify() const {
    std::map<LaneId, Use> known;
    const auto used = [&](LaneId id) {
        const auto [entry, is_new] = known.try_emplace(id);
        if (is_new) entry->second = use_of(id);
        return entry->second;
    };
    const auto is_bottleneck = [&](LaneId id, double rate) {
        const Use use = used(id);
        return use.load >= rates_[lanes_[id].link] * (1 - certified_to) &&
               rate >= use.fastest * (1 - certified_to);
    };
    for (const LaneId id : to_certify_) {
        const LinkId link = lanes_[id].link;
        const double rate = rates_[link], load = used(lanes_of_link_[link].back()).load;
        if (load > rate * (1 + certified_to))
            throw std::logic_error(fmt::format("link {} carries {} of {} bytes a second", link, load, rate));
        for (const Place& place : lanes_[id].groups) {
            const double its = lanes_[holders_[place.route]].level;
            const auto hops = hops_of(groups_[place.route]);
            if (std::none_of(hops.begin(), hops.end(),
                             [&](const LaneHop& hop) { return is_bottleneck(hop.lane, its); }))
                throw std::logic_error(fmt::format("route {} has no bottleneck", place.route));
        }
    }
}

}  // namespace hocket::dsl
