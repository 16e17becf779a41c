#include "dsl/synthesis/growing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "dsl/synthesis/turns.hpp"

namespace hocket::dsl {
namespace {

constexpr double slack = 1e-9;  // of a link's room, for rounding
constexpr int tries = 4;        // with other numbers drawn
constexpr std::size_t moves_an_arc = 200;
constexpr double steepness = 20;   // of the cost of full links
constexpr double steepest = 500;   // exponent of a cost: that of links many times too full stays finite
constexpr double new_sender = 10;  // the cost of each further one in narrow trees

class Grower {
  public:
    Grower(const Ways& ways, const std::vector<Turn>& turns, const std::vector<Rank>& roots,
           std::int64_t parts, double seconds_per_byte, bool is_narrow, const Deadline& deadline)
        : ways_(ways),
          turns_(turns),
          orbits_(ways, turns),
          roots_(roots),
          parts_(parts),
          is_narrow_(is_narrow),
          deadline_(deadline) {
        for (std::uint32_t orbit = 0; orbit < orbits_.count(); ++orbit)
            room_.push_back(orbits_.rate(orbit) * seconds_per_byte * static_cast<double>(parts) *
                            (1 + slack));
    }

    bool grow(std::uint64_t seed) {
        random_.seed(seed);
        load_.assign(orbits_.count(), 0);
        trees_.clear();
        senders_.assign(static_cast<std::size_t>(ways_.ranks()), {});
        for (std::int64_t part = 0; part < parts_; ++part)
            for (const Rank root : roots_)
                if (!grow_tree(root)) return false;
        return lacking() == 0 || move_arcs();
    }

    std::vector<Tree> trees() const {
        std::vector<Tree> trees;
        for (const Grown& grown : trees_) trees.push_back(in_order(grown));
        return trees;
    }

  private:
    struct Grown {
        Rank root;
        std::vector<Rank> parent;  // -1: not reached; the root's is itself
        std::vector<std::uint32_t> depth;
    };

    void load(Rank from, Rank to, double sign) {
        for (const LinkOrbits::Use& use : orbits_.uses(from, to)) load_[use.orbit] += sign * use.amount;
    }

    double excess(std::uint32_t orbit) const {
        return std::max(0.0, load_[orbit] - room_[orbit]) / room_[orbit];
    }
    double lacking() const {
        double sum = 0;
        for (std::uint32_t orbit = 0; orbit < orbits_.count(); ++orbit) sum += excess(orbit);
        return sum;
    }

    // A link costs the more, the fuller it is, as in multiplicative weights: so the trees come near the best
    // packing, if there are many. Arcs from new senders to a rank cost more in narrow trees.
    double cost(const Grown& grown, Rank from, Rank to) const {
        double sum = 0;
        for (const LinkOrbits::Use& use : orbits_.uses(from, to))
            sum += use.amount / room_[use.orbit] *
                   std::exp(std::min(steepness * load_[use.orbit] / room_[use.orbit], steepest));
        sum *= 1 + 1e-2 * grown.depth[static_cast<std::size_t>(from)];
        if (!is_narrow_) return sum;
        const auto& senders = senders_[static_cast<std::size_t>(first_of(to))];
        return senders.contains(sender_of(from, to)) ? sum : sum * (1 + new_sender * double(senders.size()));
    }

    // The lowest rank that turns make of this one, and where the same turn brings a sender to it.
    Rank first_of(Rank rank) const { return sender_of(rank, rank); }
    Rank sender_of(Rank from, Rank to) const {
        for (const Turn& turn : turns_) from = turn.moved(from, turn.size - to / turn.stride % turn.size);
        return from;
    }

    // Returns false if no arc leads to the rest of the ranks.
    bool grow_tree(Rank root) {
        const auto ranks = static_cast<std::size_t>(ways_.ranks());
        Grown grown{root, std::vector<Rank>(ranks, -1), std::vector<std::uint32_t>(ranks, 0)};
        grown.parent[static_cast<std::size_t>(root)] = root;
        std::vector<Rank> reached{root};
        while (reached.size() < ranks) {
            deadline_.check("growing trees");
            Arc best{root, root, 0};
            double best_cost = std::numeric_limits<double>::infinity();
            for (const Rank from : reached)
                for (Rank to = 0; to < ways_.ranks(); ++to) {
                    if (grown.parent[static_cast<std::size_t>(to)] >= 0 || !ways_.is_direct(from, to))
                        continue;
                    const double cost = this->cost(grown, from, to) *
                                        (1 + 1e-3 * std::uniform_real_distribution<double>()(random_));
                    if (cost < best_cost) best_cost = cost, best = {from, to, 0};
                }
            if (best.to == root) return false;
            grown.parent[static_cast<std::size_t>(best.to)] = best.from;
            grown.depth[static_cast<std::size_t>(best.to)] =
                grown.depth[static_cast<std::size_t>(best.from)] + 1;
            load(best.from, best.to, 1);
            senders_[static_cast<std::size_t>(first_of(best.to))].insert(sender_of(best.from, best.to));
            reached.push_back(best.to);
        }
        trees_.push_back(std::move(grown));
        return true;
    }

    static bool is_below(const Grown& grown, Rank rank, Rank above) {
        while (rank != above && rank != grown.root) rank = grown.parent[static_cast<std::size_t>(rank)];
        return rank == above;
    }

    // Gives ranks another parent, at random, where links then lack no more room than before.
    bool move_arcs() {
        const auto ranks = static_cast<std::size_t>(ways_.ranks());
        double now = lacking();
        const std::size_t moves = moves_an_arc * trees_.size() * ranks;
        std::uniform_int_distribution<std::size_t> any_tree(0, trees_.size() - 1);
        std::uniform_int_distribution<Rank> any_rank(0, ways_.ranks() - 1);
        for (std::size_t move = 0; move < moves && now > 0; ++move) {
            if (move % 1024 == 0) deadline_.check("moving arcs");
            Grown& grown = trees_[any_tree(random_)];
            const Rank rank = any_rank(random_), parent = any_rank(random_);
            Rank& old = grown.parent[static_cast<std::size_t>(rank)];
            if (rank == grown.root || parent == old || !ways_.is_direct(parent, rank) ||
                (is_narrow_ &&
                 !senders_[static_cast<std::size_t>(first_of(rank))].contains(sender_of(parent, rank))) ||
                is_below(grown, parent, rank))
                continue;
            load(old, rank, -1);
            load(parent, rank, 1);
            const double then = lacking();
            if (then <= now) {
                now = then;
                old = parent;
            } else {
                load(parent, rank, -1);
                load(old, rank, 1);
            }
        }
        return now == 0;
    }

    Tree in_order(const Grown& grown) const {
        Tree tree{grown.root, 1, {}};
        std::vector<Rank> reached{grown.root};
        for (std::size_t i = 0; i < reached.size(); ++i)
            for (Rank to = 0; to < ways_.ranks(); ++to)
                if (to != grown.root && grown.parent[static_cast<std::size_t>(to)] == reached[i]) {
                    tree.arcs.push_back({reached[i], to, 0});
                    reached.push_back(to);
                }
        go_at_once(tree);
        return tree;
    }

    const Ways& ways_;
    const std::vector<Turn>& turns_;
    LinkOrbits orbits_;
    const std::vector<Rank>& roots_;
    std::int64_t parts_;
    bool is_narrow_;
    const Deadline& deadline_;
    std::vector<double> room_, load_;  // by orbit, in parts
    std::vector<Grown> trees_;
    std::vector<std::set<Rank>> senders_;  // to a lowest rank, of all trees
    std::mt19937_64 random_;
};

}  // namespace

std::optional<Forest> grow_trees(const Ways& ways, const std::vector<Turn>& turns,
                                 const std::vector<Rank>& roots, std::int64_t parts, double seconds_per_byte,
                                 bool is_narrow, const Deadline& deadline) {
    Grower grower(ways, turns, roots, parts, seconds_per_byte, is_narrow, deadline);
    for (int seed = 1; seed <= tries; ++seed)
        if (grower.grow(static_cast<std::uint64_t>(seed))) {
            Forest forest{parts, grower.trees(), turns};
            join_alike(forest);
            return forest;
        }
    return std::nullopt;
}

}  // namespace hocket::dsl
