// Max-min fair rates of flows that share links, found again after each change where they differ.
//
// A flow is held by one of its links: one that is full, and on which no other flow is faster. All flows that
// a link holds have one rate, the link's level, so that a flow's rate is stored once for all. A link knows
// what the flows take of it that others hold; what is left, divided among its own, is its level. So after a
// change only links are looked at whose flows change, and of their flows those whose rates change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/prediction/network_spec.hpp"

namespace hocket::dsl {

using RouteId = std::uint32_t;
// A link's part for one priority.
using LaneId = std::uint32_t;
inline constexpr LaneId no_lane = ~LaneId{0};

inline constexpr const char* sharing_links = "predicting how messages share links";  // for deadlines

class Sharing {
  public:
    static constexpr double no_level = std::numeric_limits<double>::infinity();

    // rates: of each link, in bytes per second, finite and more than 0. certifies: each solution is checked,
    // and what is wrong throws std::logic_error. solve() throws DeadlineError.
    Sharing(const std::vector<double>& rates, bool certifies, const Deadline& deadline);

    // hops: at least one, each with a different link. Flows of a higher priority share links as if the others
    // were not there.
    RouteId add_route(std::span<const Hop> hops, int priority);
    // Flows come to a route, or go (less than 0).
    void add_flows(RouteId route, std::int32_t flows);
    void solve();

    std::size_t lanes() const { return lanes_.size(); }
    std::size_t solutions() const { return solutions_; }
    std::size_t visits() const { return visits_; }
    // The lane that holds the route's flows; no_lane if it has none, or none that solve() has seen.
    LaneId holder(RouteId route) const { return holders_[route]; }
    // The rate of all flows that a lane holds; no_level if it holds none.
    double level(LaneId lane) const { return lanes_[lane].level; }
    std::size_t held(LaneId lane) const { return lanes_[lane].own.size(); }
    // Lanes whose level the last solution changed, and routes that another lane holds now, with the one
    // before.
    struct Move {
        RouteId route;
        LaneId from;
    };
    std::span<const LaneId> changed() const { return changed_; }
    std::span<const Move> moved() const { return moved_; }

  private:
    struct LaneHop {
        LaneId lane;
        std::uint32_t share;  // index into shares_
    };
    // An open flow grows until a link holds it.
    struct Group {
        std::size_t first_hop = 0;
        std::uint32_t hops = 0;
        std::int32_t flows = 0;
        std::uint32_t position = 0;  // in its holder's `own`
        std::uint32_t moved_in = 0;  // the last solution that gave it another holder
        bool is_open = false;
    };
    // A group that a lane holds, with what the inner loops need of it: groups lie anywhere in memory, a
    // lane's own flows beside each other.
    struct Held {
        static constexpr std::uint32_t most_hops = 6;  // that fit here, in one line of the cache
        RouteId route;
        std::int32_t flows;
        std::uint32_t hops;
        bool is_open;
        std::array<LaneHop, most_hops> first_hops;
    };
    struct Place {  // of a group on one of its lanes
        RouteId route;
        std::uint32_t hop;
    };
    // What the inner loops use comes first, in one line of the cache.
    struct alignas(64) Lane {
        long double others = 0;  // what flows take that other lanes hold
        long double weight = 0;  // the sum of the shares of its own flows, and of open ones
        double capacity = 0;     // what higher priorities leave of the link
        double level = no_level;
        double fastest_other = 0;   // at least the rate of each flow in `others`
        std::uint32_t growing = 0;  // the groups in `weight`
        bool has_opened = false;    // some of its own flows may be open
        bool is_touched = false;
        double queued = no_level;   // the level at which it will be looked at
        std::vector<RouteId> open;  // flows that were opened
        std::vector<Held> own;      // that it holds
        std::vector<Place> groups;  // all that have flows
        LaneId below = no_lane;     // the same link's next lower priority
        LinkId link = 0;
        int priority = 0;
        std::uint32_t priority_number = 0;
        std::uint32_t seen_in = 0, changed_in = 0;  // the last solution that saw it, or changed its level
    };
    struct Turn {
        double level;
        LaneId lane;
        bool operator>(const Turn& other) const {
            return level != other.level ? level > other.level : lane > other.lane;
        }
    };
    struct Faster {
        double rate;
        RouteId route;
        bool operator<(const Faster& other) const {
            return rate != other.rate ? rate > other.rate : route < other.route;
        }
    };

    std::span<const LaneHop> hops_of(const Held& held) const {
        if (held.hops <= Held::most_hops) return {held.first_hops.data(), held.hops};
        return hops_of(groups_[held.route]);
    }
    double weight_of(std::int32_t flows, const LaneHop& hop) const { return flows * shares_[hop.share]; }
    std::uint32_t number_of_share(double share);
    std::span<const LaneHop> hops_of(const Group& group) const {
        return {hops_.data() + group.first_hop, group.hops};
    }
    Held& held_of(RouteId route) { return lanes_[holders_[route]].own[groups_[route].position]; }
    LaneId lane_of(LinkId link, int priority);
    std::uint32_t number_of(int priority);
    void join(RouteId route);
    void leave(RouteId route);
    void add_own(LaneId id, RouteId route);
    void remove_own(RouteId route);
    void touch(LaneId id);
    double rate_of(const Lane& lane) const;
    double left_of(const Lane& lane) const;
    void release(LaneId id);
    void set_level(LaneId id, double level);
    void solve_priority(std::vector<LaneId>& touched);
    Turn take_turn();
    void queue(LaneId id, double level);
    void dequeue(Lane& lane);
    void stop_growing(Lane& lane);
    void recheck(LaneId id);
    void see(LaneId id);
    void enqueue(LaneId id);
    void visit(LaneId id, double turn);
    void open(RouteId route);
    bool open_own(LaneId id, double rate);
    bool open_faster(LaneId id);
    void hold(LaneId id, double rate);
    void close(RouteId route, LaneId by, double rate);
    void shift(const Held& held, LaneId by, double from, double to);
    void pass_down();
    struct Use {
        double load = 0;     // of this priority, and of higher ones
        double fastest = 0;  // of this priority
    };
    Use use_of(LaneId id) const;
    void certify() const;

    bool certifies_;
    DeadlineCounter deadline_;
    std::vector<double> rates_;                       // by link
    std::vector<std::vector<LaneId>> lanes_of_link_;  // the highest priority first
    std::vector<Lane> lanes_;
    std::vector<double> shares_;  // all that occur
    std::map<double, std::uint32_t> share_numbers_;
    std::vector<LaneHop> hops_;
    std::vector<std::uint32_t> positions_;  // by hop: of the route in its lane's list
    std::vector<Group> groups_;             // by route
    std::vector<LaneId> holders_;           // by route
    struct Priority {
        int value;
        std::uint32_t number;  // index into touched_
    };
    std::vector<Priority> priorities_;          // the highest first
    std::vector<std::vector<LaneId>> touched_;  // by priority's number: the lanes where something changed
    std::vector<Turn> turns_;                   // a heap; what is not its lane's `queued` is out of date
    std::size_t queued_ = 0;                    // lanes that wait for their turn
    std::vector<LaneId> seen_;                  // while a priority is solved
    std::vector<LaneId> changed_, to_certify_;
    std::vector<Move> moved_;
    std::vector<Faster> faster_;  // scratch
    std::uint32_t solution_ = 0;
    std::size_t solutions_ = 0, visits_ = 0;
};

}  // namespace hocket::dsl
