#include "dsl/synthesis/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "dsl/synthesis/turns.hpp"

namespace hocket::dsl {
namespace {

constexpr double whole = 1e-6;  // of a piece: what rounding may add to a link's room

class Spreading {
  public:
    Spreading(const Ways& ways, const std::vector<Turn>& turns, const std::vector<Rank>& roots,
              const RoundLimits& limits, const Deadline& deadline)
        : ways_(ways),
          turns_(turns),
          ranks_(static_cast<std::size_t>(ways.ranks())),
          limits_(limits),
          deadline_(deadline),
          senders_(representatives(turns, ways.ranks())),
          slot_(ranks_, 0),
          holders_(number_roots(roots)),
          pieces_(holders_.size() * static_cast<std::size_t>(limits.parts)),
          has_(ranks_, std::vector<bool>(pieces_, false)),
          coming_(has_),
          ease_(ranks_, std::vector<double>(pieces_, 0)),
          orbits_(ways, turns),
          room_(orbits_.count(), 0),
          random_(limits.seed) {
        for (Rank from = 0; from < ways.ranks(); ++from)
            for (Rank to = 0; to < ways.ranks(); ++to) rates_.push_back(rate(from, to));
        for (const Rank root : roots)
            for (std::int64_t part = 0; part < limits.parts; ++part) {
                trees_[piece_of(root, part)] = {root, 1, {}};
                for (Rank image = 0; image < images(turns); ++image) {
                    const Rank rank = moved(root, image);
                    bring(rank, piece_of(rank, part));
                    lacking_ += ranks_ - 1;
                }
            }
    }

    std::vector<Tree> spread() {
        for (std::uint32_t round = 0; lacking_ > 0; ++round) go(round);
        std::vector<Tree> trees;
        for (auto& [piece, tree] : trees_) trees.push_back(std::move(tree));
        return trees;
    }

  private:
    struct Message {
        Rank from = 0, to = 0;
        std::size_t pieces = 0;
    };

    std::size_t piece_of(Rank root, std::int64_t part) const {
        return slot_[static_cast<std::size_t>(root)] * static_cast<std::size_t>(limits_.parts) +
               static_cast<std::size_t>(part);
    }
    Rank root_of(std::size_t piece) const {
        return holders_[piece / static_cast<std::size_t>(limits_.parts)];
    }
    // Returns the roots and all that the turns make of them, and numbers them, as only they have pieces.
    std::vector<Rank> number_roots(const std::vector<Rank>& roots) {
        std::vector<Rank> holders;
        for (const Rank root : roots)
            for (Rank image = 0; image < images(turns_); ++image) holders.push_back(moved(root, image));
        std::sort(holders.begin(), holders.end());
        for (std::size_t slot = 0; slot < holders.size(); ++slot)
            slot_[static_cast<std::size_t>(holders[slot])] = slot;
        return holders;
    }

    Rank moved(Rank rank, Rank image) const {
        for (const Turn& turn : turns_) {
            rank = turn.moved(rank, image % turn.size);
            image /= turn.size;
        }
        return rank;
    }
    std::size_t moved_piece(std::size_t piece, Rank image) const {
        return piece_of(moved(root_of(piece), image), std::int64_t(piece) % limits_.parts);
    }
    // Returns the image that brings a rank to the lowest one that turns make of it.
    Rank back(Rank rank) const {
        Rank image = 0, stride = 1;
        for (const Turn& turn : turns_) {
            image += (turn.size - rank / turn.stride % turn.size) % turn.size * stride;
            stride *= turn.size;
        }
        return image;
    }

    double rate(Rank from, Rank to) const {
        double least = from == to ? 0 : std::numeric_limits<double>::infinity();
        for (const Hop& hop : ways_.of(from, to))
            least = std::min(least, ways_.network().links()[hop.link].rate / hop.share);
        return std::isinf(least) ? 0 : least;
    }

    void bring(Rank to, std::size_t piece) {
        coming_[static_cast<std::size_t>(to)][piece] = true;
        for (std::size_t rank = 0; rank < ranks_; ++rank)
            ease_[rank][piece] += rates_[static_cast<std::size_t>(to) * ranks_ + rank];
    }

    void go(std::uint32_t round) {
        has_ = coming_;
        sent_.assign(ranks_, 0);
        got_ = sent_;
        // What is left of a piece's room is kept, so that rooms need not be whole.
        for (double& room : room_) room = std::isinf(room) ? 0 : room - std::floor(room + whole);
        double more = 1;  // rounds' room
        for (bool any = false; !any; more = rounds_to_wait()) {
            for (std::uint32_t orbit = 0; orbit < orbits_.count(); ++orbit)
                room_[orbit] += more * orbits_.rate(orbit) * limits_.seconds;
            for (Message message = best(); message.pieces > 0; message = best(), any = true)
                send(message, round);
        }
    }

    // Returns the rounds after which some link has room for a piece that its receiver lacks.
    double rounds_to_wait() const {
        double least = std::numeric_limits<double>::infinity();
        if (!limits_.fills_links()) return 1;
        for (const Rank from : senders_)
            for (Rank to = 0; to < ways_.ranks(); ++to) {
                if (to == from || !ways_.is_direct(from, to) || !lacks(from, to)) continue;
                double wait = 1;
                for (const LinkOrbits::Use& use : orbits_.uses(from, to))
                    wait = std::max(wait, std::ceil((use.amount * (1 - whole) - room_[use.orbit]) /
                                                    (orbits_.rate(use.orbit) * limits_.seconds)));
                least = std::min(least, wait);
            }
        return std::isinf(least) ? 1 : least;
    }
    // Returns true if one rank has what will not come to the other.
    bool lacks(Rank from, Rank to) const {
        const auto &has = has_[static_cast<std::size_t>(from)],
                   &coming = coming_[static_cast<std::size_t>(to)];
        for (std::size_t piece = 0; piece < pieces_; ++piece)
            if (has[piece] && !coming[piece]) return true;
        return false;
    }

    std::size_t room_for(Rank from, Rank to) const {
        double room = limits_.pieces;
        for (const LinkOrbits::Use& use : orbits_.uses(from, to))
            room = std::min(room, room_[use.orbit] / use.amount);
        return static_cast<std::size_t>(std::max(room + whole, 0.0));
    }

    Message best() {
        deadline_.check("spreading in rounds");
        Message best;
        double best_cost = 0;
        for (const Rank from : senders_) {
            if (sent_[static_cast<std::size_t>(from)] >= limits_.messages) continue;
            const std::vector<bool>& has = has_[static_cast<std::size_t>(from)];
            for (Rank to = 0; to < ways_.ranks(); ++to) {
                if (to == from || (limits_.fills_links() && !ways_.is_direct(from, to)) ||
                    got_[static_cast<std::size_t>(to)] >= limits_.messages)
                    continue;
                const std::size_t room = room_for(from, to);
                if (room == 0 || room < best.pieces) continue;
                const std::vector<bool>& coming = coming_[static_cast<std::size_t>(to)];
                std::size_t count = 0;
                for (std::size_t piece = 0; piece < pieces_ && count < room; ++piece)
                    count += has[piece] && !coming[piece];
                if (count == 0 || count < best.pieces) continue;
                const double cost = this->cost(from, to);
                if (count > best.pieces || cost < best_cost) best = {from, to, count}, best_cost = cost;
            }
        }
        return best;
    }

    // Short ways over fast links leave most to others.
    double cost(Rank from, Rank to) {
        double sum = 0;
        for (const LinkOrbits::Use& use : orbits_.uses(from, to)) sum += use.amount / orbits_.rate(use.orbit);
        return sum * (1 + 1e-3 * std::uniform_real_distribution<double>()(random_));
    }

    // Returns the pieces of a message: those that are hardest to get elsewhere.
    std::vector<std::size_t> choose(const Message& message) {
        std::vector<std::pair<double, std::size_t>> lacked;
        for (std::size_t piece = 0; piece < pieces_; ++piece)
            if (has_[static_cast<std::size_t>(message.from)][piece] &&
                !coming_[static_cast<std::size_t>(message.to)][piece])
                lacked.emplace_back(ease_[static_cast<std::size_t>(message.to)][piece] *
                                        (1 + 1e-3 * std::uniform_real_distribution<double>()(random_)),
                                    piece);
        std::sort(lacked.begin(), lacked.end());
        std::vector<std::size_t> pieces;
        for (std::size_t i = 0; i < message.pieces; ++i) pieces.push_back(lacked[i].second);
        return pieces;
    }

    void send(const Message& message, std::uint32_t round) {
        const std::vector<std::size_t> pieces = choose(message);
        for (const std::size_t piece : pieces) {
            const Rank image = back(root_of(piece));
            trees_.at(moved_piece(piece, image))
                .arcs.push_back({moved(message.from, image), moved(message.to, image), round});
        }
        for (Rank image = 0; image < images(turns_); ++image) {
            const Rank from = moved(message.from, image), to = moved(message.to, image);
            ++sent_[static_cast<std::size_t>(from)];
            ++got_[static_cast<std::size_t>(to)];
            for (const std::size_t piece : pieces) bring(to, moved_piece(piece, image));
        }
        for (const LinkOrbits::Use& use : orbits_.uses(message.from, message.to))
            room_[use.orbit] -= use.amount * static_cast<double>(pieces.size());
        lacking_ -= pieces.size() * static_cast<std::size_t>(images(turns_));
    }

    const Ways& ways_;
    const std::vector<Turn>& turns_;
    std::size_t ranks_;
    RoundLimits limits_;
    const Deadline& deadline_;
    std::vector<Rank> senders_;
    std::vector<std::size_t> slot_;  // of a root among those that have pieces
    std::vector<Rank> holders_;      // by slot
    std::size_t pieces_;
    std::vector<std::vector<bool>> has_, coming_;  // by rank and piece: before the round, and after it
    std::vector<std::vector<double>> ease_;  // the rates from those that will have a piece to a rank, in sum
    std::vector<double> rates_;              // by pair of ranks
    LinkOrbits orbits_;
    std::vector<double> room_;           // by orbit: of each link, for pieces in this round
    std::vector<Rank> sent_, got_;       // by rank: messages of this round
    std::size_t lacking_ = 0;            // pieces, of all ranks
    std::map<std::size_t, Tree> trees_;  // by piece
    std::mt19937_64 random_;
};

}  // namespace

Forest spread_in_rounds(const Ways& ways, const std::vector<Turn>& turns, const std::vector<Rank>& roots,
                        const RoundLimits& limits, const Deadline& deadline) {
    return {limits.parts, Spreading(ways, turns, roots, limits, deadline).spread(), turns};
}

}  // namespace hocket::dsl
