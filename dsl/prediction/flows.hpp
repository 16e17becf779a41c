// Simulates flows that share links: at each moment every flow has its max-min fair rate. Event-driven: rates
// change when a flow begins or ends, and only those of flows that share links with it, directly or through
// others, and that are not slower. (All rates grow alike until links are full. Up to the rate of a flow, it
// is the same whether that flow is there or not.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/prediction/network_spec.hpp"

namespace hocket::dsl {

using FlowId = std::uint32_t;
using RouteId = std::uint32_t;

// Events whose times differ by no more than this, relative to the time, are one event.
inline constexpr double same_time = 1e-12;

// A flow is max-min fair if it has a bottleneck: a link that is full, and on which no other flow of its
// priority is faster, and none of a lower one has anything. A
// flow that loads a link with only a share of its rate takes that part of the link.
//
// Time begins at 0 and never goes back. Everything is in an order that depends on the calls alone. Not
// thread-safe.
class Flows {
  public:
    // rates: of each link, in bytes per second, finite and more than 0. certifies: each solution is checked,
    // and what is wrong throws std::logic_error. The deadline must outlive the object; it is checked by
    // next() and advance(), which throw DeadlineError.
    explicit Flows(std::vector<double> rates, bool certifies = false, const Deadline& deadline = no_deadline);

    // hops: at least one, each with a different link. Flows of one route have equal rates and are drained
    // together. Flows of a higher priority share links as if the others were not there; these share what is
    // left, which may be nothing.
    RouteId add_route(std::span<const Hop> hops, int priority = 0);

    // Starts a flow now, and returns its number: 0, 1, ... bytes: more than 0.
    FlowId start(RouteId route, double bytes);
    // Returns the time at which the next flow ends; infinity if there is none.
    double next();
    // Goes on to this time, at most next(), and returns the flows that end there, ascending. Valid until the
    // next advance().
    const std::vector<FlowId>& advance(double time);

    double now() const { return now_; }
    double rate_of(RouteId route) const { return groups_[route].rate; }  // after next()
    std::size_t solutions() const { return solutions_; }

  private:
    static constexpr double never_slower = std::numeric_limits<double>::infinity();
    static constexpr int lowest = std::numeric_limits<int>::min();
    struct Member {
        double end;  // the group's progress at which it ends
        FlowId flow;
        bool operator>(const Member& other) const {
            return end != other.end ? end > other.end : flow > other.flow;
        }
    };
    // The flows of one route. `progress`: the bytes that a flow has sent that was there from the beginning.
    struct Group {
        std::size_t first_hop = 0;
        std::uint32_t hops = 0, version = 0;
        std::uint64_t seen = 0;  // the last solution that it was part of
        double progress = 0, since = 0, rate = 0, next_rate = 0;
        int priority = 0;
        bool changed = false, frozen = false;
        std::vector<Member> members;  // a heap, the next to end first
    };
    struct Place {  // of a group on one of its links
        RouteId route;
        std::uint32_t hop;
    };
    struct LinkState {
        double rate;
        std::vector<Place> groups;  // that have flows
        double flows = 0;           // the sum of their shares
        std::uint64_t seen = 0;
        bool dirty = false;
        // While rates are found:
        double left = 0, weight = 0, frozen_weight = 0;
        std::size_t open = 0;
    };
    struct Event {
        double time;
        RouteId route;
        std::uint32_t version;
        bool operator>(const Event& other) const {
            return time != other.time ? time > other.time : route > other.route;
        }
    };
    struct Level {  // the rate at which a link is full
        double rate;
        LinkId link;
        bool operator>(const Level& other) const {
            return rate != other.rate ? rate > other.rate : link > other.link;
        }
    };

    std::span<const Hop> hops_of(const Group& group) const {
        return {hops_.data() + group.first_hop, group.hops};
    }
    void mark(RouteId route, double flows);
    struct Use {
        double load = 0;     // of this priority, and of higher ones
        double fastest = 0;  // of this priority
    };
    Use use_of(LinkId link, int priority) const;
    void join(RouteId route);
    void leave(RouteId route);
    void settle();
    void collect(LinkId first);
    bool stays(const Group& group, double slowest) const;
    void fill();
    void begin_filling(LinkState& link);
    void fill_class(int priority);
    void freeze(const std::vector<LinkId>& full, double rate, int priority);
    void apply(RouteId route);
    static double end_of(const Group& group);
    void forget_stale_events();
    void certify() const;
    double next_event();

    double now_ = 0;
    bool certifies_;
    DeadlineCounter deadline_;
    std::vector<Hop> hops_;
    std::vector<std::uint32_t> positions_;  // by hop: of the group in its link's list
    std::vector<Group> groups_;             // by route
    std::vector<LinkState> links_;
    std::vector<LinkId> dirty_;
    std::vector<int> priorities_;  // of all routes, the highest first
    int most_urgent_ = lowest;     // priority of what changed since the last solution
    double slowest_ =
        never_slower;  // what is slower has the same rate after all changes since the last solution
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<FlowId> ended_;
    FlowId flows_ = 0;
    std::size_t solutions_ = 0;
    std::uint64_t component_ = 0;
    // Of the part of the network that is being solved:
    std::vector<LinkId> links_seen_, touched_, to_certify_;
    std::vector<RouteId> groups_seen_;
};

}  // namespace hocket::dsl
