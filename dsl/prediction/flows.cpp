#include "dsl/prediction/flows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace hocket::dsl {
namespace {

constexpr const char* sharing_links = "predicting how messages share links";
constexpr double same_rate = 1e-12;    // relative
constexpr double certified_to = 1e-9;  // relative

}  // namespace

Flows::Flows(std::vector<double> rates, bool certifies, const Deadline& deadline)
    : certifies_(certifies), deadline_(deadline), links_(rates.size()) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
        if (!(rates[i] > 0) || std::isinf(rates[i])) throw std::invalid_argument("a link without a rate");
        links_[i].rate = rates[i];
    }
}

RouteId Flows::add_route(std::span<const Hop> hops, int priority) {
    if (hops.empty()) throw std::invalid_argument("a route without links");
    Group& group = groups_.emplace_back();
    group.first_hop = hops_.size();
    group.hops = static_cast<std::uint32_t>(hops.size());
    hops_.insert(hops_.end(), hops.begin(), hops.end());
    positions_.resize(hops_.size());
    group.priority = priority;
    const auto place = std::lower_bound(priorities_.begin(), priorities_.end(), priority, std::greater<>());
    if (place == priorities_.end() || *place != priority) priorities_.insert(place, priority);
    return static_cast<RouteId>(groups_.size() - 1);
}

FlowId Flows::start(RouteId route, double bytes) {
    Group& group = groups_[route];
    if (group.members.empty()) {
        group.progress = 0;
        group.rate = 0;
        join(route);
    }
    mark(route, 1);
    // Its links are not full before they would be if all had the same rate, unless others go first.
    if (priorities_.size() > 1) slowest_ = 0;
    for (const Hop& hop : hops_of(group))
        slowest_ = std::min(slowest_, links_[hop.link].rate / links_[hop.link].flows);
    group.progress += group.rate * (now_ - group.since);
    group.since = now_;
    group.members.push_back({group.progress + bytes, flows_});
    std::push_heap(group.members.begin(), group.members.end(), std::greater<>());
    return flows_++;
}

double Flows::next() {
    settle();
    return next_event();
}

const std::vector<FlowId>& Flows::advance(double time) {
    ended_.clear();
    const double until = time + same_time * time;
    double next_end = next();
    now_ = std::max(now_, time);
    for (; next_end <= until; next_end = next_event()) {
        deadline_.check(sharing_links);
        const RouteId route = events_.top().route;
        events_.pop();
        Group& group = groups_[route];
        group.progress += group.rate * (now_ - group.since);
        group.since = now_;
        // The first ends by definition, whatever rounding says.
        const double reached = group.progress + group.rate * same_time * time;
        const std::size_t before = group.members.size();
        do {
            ended_.push_back(group.members.front().flow);
            std::pop_heap(group.members.begin(), group.members.end(), std::greater<>());
            group.members.pop_back();
        } while (!group.members.empty() && group.members.front().end <= reached);
        mark(route, static_cast<double>(group.members.size()) - static_cast<double>(before));
        slowest_ = std::min(slowest_, group.rate);
        if (group.members.empty()) leave(route);
    }
    std::sort(ended_.begin(), ended_.end());
    return ended_;
}

// The next event that still counts, before rates are found again.
double Flows::next_event() {
    while (!events_.empty() && events_.top().version != groups_[events_.top().route].version) events_.pop();
    return events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time;
}

// The rates of the flows on these links have to be found again. flows: how many came, or went.
void Flows::mark(RouteId route, double flows) {
    Group& group = groups_[route];
    group.changed = true;
    ++group.version;
    most_urgent_ = std::max(most_urgent_, group.priority);
    for (const Hop& hop : hops_of(group)) {
        LinkState& link = links_[hop.link];
        link.flows += flows * hop.share;
        if (!std::exchange(link.dirty, true)) dirty_.push_back(hop.link);
    }
}

void Flows::join(RouteId route) {
    const Group& group = groups_[route];
    for (std::uint32_t i = 0; i < group.hops; ++i) {
        std::vector<Place>& groups = links_[hops_[group.first_hop + i].link].groups;
        positions_[group.first_hop + i] = static_cast<std::uint32_t>(groups.size());
        groups.push_back({route, i});
    }
}

void Flows::leave(RouteId route) {
    const Group& group = groups_[route];
    for (std::uint32_t i = 0; i < group.hops; ++i) {
        std::vector<Place>& groups = links_[hops_[group.first_hop + i].link].groups;
        const std::uint32_t position = positions_[group.first_hop + i];
        groups[position] = groups.back();
        positions_[groups_[groups[position].route].first_hop + groups[position].hop] = position;
        groups.pop_back();
        if (groups.empty()) links_[hops_[group.first_hop + i].link].flows = 0;  // without what rounding left
    }
}

void Flows::settle() {
    for (const LinkId link : dirty_) {
        if (!links_[link].dirty) continue;  // solved with another
        collect(link);
        if (!groups_seen_.empty()) {
            fill();
            ++solutions_;
        }
        if (certifies_) to_certify_.insert(to_certify_.end(), links_seen_.begin(), links_seen_.end());
        for (const RouteId route : groups_seen_) apply(route);
    }
    dirty_.clear();
    slowest_ = never_slower;
    forget_stale_events();
    most_urgent_ = lowest;
    if (certifies_) certify();
    to_certify_.clear();
}

// Whether its rate is the same after what changed.
bool Flows::stays(const Group& group, double slowest) const {
    if (group.changed || group.priority < most_urgent_) return false;
    return group.priority > most_urgent_ || group.rate < slowest;
}

// Finds all that shares links with this one, directly or through others, but for what stays.
void Flows::collect(LinkId first) {
    const double slowest = slowest_ * (1 - certified_to);
    ++component_;
    links_seen_.assign(1, first);
    groups_seen_.clear();
    links_[first].seen = component_;
    for (std::size_t i = 0; i < links_seen_.size(); ++i) {
        LinkState& link = links_[links_seen_[i]];
        link.dirty = false;
        deadline_.check(sharing_links, 1 + link.groups.size());
        for (const Place& place : link.groups) {
            Group& group = groups_[place.route];
            if (stays(group, slowest)) continue;
            if (std::exchange(group.seen, component_) == component_) continue;
            groups_seen_.push_back(place.route);
            for (const Hop& hop : hops_of(group))
                if (std::exchange(links_[hop.link].seen, component_) != component_)
                    links_seen_.push_back(hop.link);
        }
    }
}

// Each priority shares what higher ones have left.
void Flows::fill() {
    for (const LinkId id : links_seen_) begin_filling(links_[id]);
    for (const RouteId route : groups_seen_) groups_[route].frozen = false;
    for (const int priority : priorities_) {
        fill_class(priority);
        if (priority == priorities_.back()) break;
        for (const LinkId id : links_seen_)  // what rounding leaves is nothing
            if (links_[id].left < links_[id].rate * same_rate) links_[id].left = 0;
    }
}

// Finds what the flows that stay leave of the link.
void Flows::begin_filling(LinkState& link) {
    long double taken = 0;  // a thousand of them leave little, of which rounding is much
    for (const Place& place : link.groups) {
        const Group& group = groups_[place.route];
        if (group.seen == component_) continue;
        const double weight =
            static_cast<double>(group.members.size()) * hops_[group.first_hop + place.hop].share;
        taken += static_cast<long double>(weight) * group.rate;
    }
    link.left = std::max(0.0, static_cast<double>(link.rate - taken));
}

// Progressive filling: the rates of all flows grow alike, until a link is full and stops those on it. A
// link's level, the rate at which it is full, never falls when others stop, so that a stale one is looked at
// again only when its turn comes.
void Flows::fill_class(int priority) {
    std::vector<Level> heap;
    for (const LinkId id : links_seen_) {
        LinkState& link = links_[id];
        link.weight = 0;
        link.open = 0;
        for (const Place& place : link.groups) {
            const Group& group = groups_[place.route];
            if (group.seen != component_ || group.priority != priority) continue;
            link.weight +=
                static_cast<double>(group.members.size()) * hops_[group.first_hop + place.hop].share;
            ++link.open;
        }
        if (link.open > 0) heap.push_back({link.left / link.weight, id});
    }
    std::priority_queue<Level, std::vector<Level>, std::greater<>> levels(std::greater<>(), std::move(heap));
    std::vector<LinkId> full;
    while (!levels.empty()) {
        const Level lowest = levels.top();
        const LinkState& link = links_[lowest.link];
        levels.pop();
        if (link.open == 0) continue;
        const double level = link.left / link.weight;
        if (level > lowest.rate) {
            levels.push({level, lowest.link});
            continue;
        }
        // Links that are full at the same time are taken together, before rounding makes them differ.
        full.assign(1, lowest.link);
        while (!levels.empty() && levels.top().rate <= level * (1 + same_rate)) {
            const Level other = levels.top();
            levels.pop();
            const LinkState& tied = links_[other.link];
            if (tied.open == 0) continue;
            const double now = tied.left / tied.weight;
            if (now <= level * (1 + same_rate))
                full.push_back(other.link);
            else
                levels.push({now, other.link});
        }
        freeze(full, level, priority);
    }
}

void Flows::freeze(const std::vector<LinkId>& full, double rate, int priority) {
    touched_.clear();
    for (const LinkId id : full) {
        deadline_.check(sharing_links, links_[id].groups.size());
        for (const Place& place : links_[id].groups) {
            Group& group = groups_[place.route];
            if (group.seen != component_ || group.priority != priority) continue;
            if (std::exchange(group.frozen, true)) continue;
            group.next_rate = rate;
            for (const Hop& hop : hops_of(group)) {
                LinkState& link = links_[hop.link];
                if (link.frozen_weight == 0) touched_.push_back(hop.link);
                link.frozen_weight += static_cast<double>(group.members.size()) * hop.share;
                --link.open;
            }
        }
    }
    for (const LinkId id : touched_) {
        LinkState& link = links_[id];
        const double weight = std::exchange(link.frozen_weight, 0);
        link.weight -= weight;
        link.left = std::max(0.0, link.left - weight * rate);
    }
}

// Returns the time at which the group's next flow ends.
double Flows::end_of(const Group& group) {
    if (!(group.rate > 0))
        return std::numeric_limits<double>::infinity();  // flows of higher priority take all
    return group.since + std::max(0.0, group.members.front().end - group.progress) / group.rate;
}

// Takes over the rate that was found.
void Flows::apply(RouteId route) {
    Group& group = groups_[route];
    if (!group.changed && group.next_rate == group.rate) return;
    group.progress += group.rate * (now_ - group.since);
    group.since = now_;
    group.rate = group.next_rate;
    group.changed = false;
    ++group.version;
    events_.push({end_of(group), route, group.version});
}

// Rates mostly rise, so that the events of former rates lie late in the queue and would pile up there.
void Flows::forget_stale_events() {
    if (events_.size() <= 2 * groups_.size() + 1024) return;
    std::vector<Event> valid;
    for (RouteId route = 0; route < groups_.size(); ++route) {
        const Group& group = groups_[route];
        if (!group.members.empty()) valid.push_back({end_of(group), route, group.version});
    }
    events_ = decltype(events_)(std::greater<>(), std::move(valid));
}

Flows::Use Flows::use_of(LinkId link, int priority) const {
    Use use;
    for (const Place& place : links_[link].groups) {
        const Group& group = groups_[place.route];
        if (group.priority < priority) continue;
        use.load +=
            static_cast<double>(group.members.size()) * group.rate * hops_[group.first_hop + place.hop].share;
        if (group.priority == priority) use.fastest = std::max(use.fastest, group.rate);
    }
    return use;
}

// Checks all flows on the links that were looked at, also those whose rates were not found again.
void Flows::certify() const {
    std::map<std::pair<LinkId, int>, Use> known;
    const auto used = [&](LinkId link, int priority) {
        const auto [entry, is_new] = known.try_emplace({link, priority});
        if (is_new) entry->second = use_of(link, priority);
        return entry->second;
    };
    for (const LinkId link : to_certify_) {
        const double rate = links_[link].rate, load = used(link, lowest).load;
        if (load > rate * (1 + certified_to))
            throw std::logic_error(fmt::format("link {} carries {} of {} bytes a second", link, load, rate));
        for (const Place& place : links_[link].groups) {
            const Group& group = groups_[place.route];
            const auto is_bottleneck = [&](const Hop& hop) {
                const Use use = used(hop.link, group.priority);
                return use.load >= links_[hop.link].rate * (1 - certified_to) &&
                       group.rate >= use.fastest * (1 - certified_to);
            };
            const auto hops = hops_of(group);
            if (std::none_of(hops.begin(), hops.end(), is_bottleneck))
                throw std::logic_error(fmt::format("route {} has no bottleneck", place.route));
        }
    }
}

}  // namespace hocket::dsl
