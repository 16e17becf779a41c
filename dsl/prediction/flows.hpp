// Simulates flows that share links: at each moment every flow has its max-min fair rate
// (dsl/prediction/sharing.hpp). Event-driven: rates change when a flow begins or ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/prediction/end_queue.hpp"
#include "dsl/prediction/network_spec.hpp"
#include "dsl/prediction/sharing.hpp"

namespace hocket::dsl {

using FlowId = std::uint32_t;

// Events whose times differ by no more than this, relative to the time, are one event.
inline constexpr double same_time = 1e-12;

// A flow is max-min fair if it has a bottleneck: a link that is full, and on which no other flow of its
// priority is faster, and none of a lower one has anything. A flow that loads a link with only a share of its
// rate takes that part of the link.
//
// Time begins at 0 and never goes back. Everything is in an order that depends on the calls alone. Not
// thread-safe.
class Flows {
  public:
    // rates: of each link, in bytes per second, finite and more than 0. certifies: each solution is checked,
    // and what is wrong throws std::logic_error. The deadline must outlive the object; it is checked by
    // next() and advance(), which throw DeadlineError.
    explicit Flows(const std::vector<double>& rates, bool certifies = false,
                   const Deadline& deadline = no_deadline)
        : sharing_(rates, certifies, deadline), deadline_(deadline) {}

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
    double rate_of(RouteId route) const;                            // after next()
    std::size_t solutions() const { return sharing_.solutions(); }  // times that rates were found
    std::size_t visits() const { return sharing_.visits(); }        // of links, to find them

    std::size_t endings() const;  // ends of flows that are queued, also those that are out of date

  private:
    using Progress = long double;  // small flows run beside large ones
    struct Member {
        double end;  // the group's progress at which it ends
        FlowId flow;
        bool operator>(const Member& other) const {
            return end != other.end ? end > other.end : flow > other.flow;
        }
    };
    // The flows of one route. Its progress is what a flow has sent that was there from the beginning.
    struct Group {
        Progress ahead = 0;           // of its holder's progress
        Progress queued = 0;          // the holder's progress at which the first member ends
        std::vector<Member> members;  // a heap, the next to end first
    };
    struct Ending {
        Progress at;
        RouteId route;
        bool operator>(const Ending& other) const {
            return at != other.at ? at > other.at : route > other.route;
        }
    };
    // The flows that a lane holds have one rate. Its progress is what one has sent that it holds since it
    // last held none.
    struct Drain {
        Progress progress = 0;
        double since = 0, rate = 0;
        std::vector<Ending> endings;  // a heap; what is not a group's `queued` is out of date
        bool is_idle = true, is_late = false;
    };

    Progress progress_of(const Drain& drain) const {
        return drain.progress + static_cast<Progress>(drain.rate) * (now_ - drain.since);
    }
    void settle();
    void take_level(LaneId lane);
    void move(const Sharing::Move& move);
    void queue(RouteId route);
    static void pop(std::vector<Ending>& endings);
    bool is_stale(LaneId lane, const Ending& ending) const;
    void forget_stale_endings(LaneId lane);
    void refresh(LaneId lane);
    void queue_lane(LaneId lane);
    void end_on(LaneId lane, double time);
    void end_members(Group& group, Progress reached);

    Sharing sharing_;
    DeadlineCounter deadline_;
    double now_ = 0;
    std::vector<Group> groups_;  // by route
    std::vector<Drain> drains_;  // by lane
    EndQueue ends_;              // of lanes, by when the first flow ends
    std::vector<LaneId> late_;   // lanes whose entry there is out of date
    std::vector<FlowId> ended_;
    FlowId flows_ = 0;
};

}  // namespace hocket::dsl
