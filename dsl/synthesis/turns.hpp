// The turns of the ranks after which a network is the same.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/synthesis/forest.hpp"

namespace hocket::dsl {

// Returns turns of different coordinates, each of which leaves every way what it was: as long, and over links
// of the same rates that the same ways share, be it one path or several at once. Throws DeadlineError.
std::vector<Turn> find_turns(const Ways& ways, const Deadline& deadline);

// The links that turns make of each other.
class LinkOrbits {
  public:
    LinkOrbits(const Ways& ways, const std::vector<Turn>& turns);

    // A use of each link of an orbit, by one message and all that the turns make of it.
    struct Use {
        std::uint32_t orbit;
        double amount;
    };

    std::uint32_t count() const { return static_cast<std::uint32_t>(rates_.size()); }
    std::uint32_t of(LinkId link) const { return orbit_[link]; }
    double rate(std::uint32_t orbit) const { return rates_[orbit]; }  // of one link
    // Returns the uses of a message from one rank to another, each orbit once.
    const std::vector<Use>& uses(Rank from, Rank to) const {
        return uses_[static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to)];
    }

  private:
    void unite(const Ways& ways, const std::vector<Turn>& turns);
    void add_uses(const Ways& ways, const std::vector<Turn>& turns);

    std::size_t ranks_;
    std::vector<std::uint32_t> orbit_;     // by link
    std::vector<double> rates_, members_;  // by orbit
    std::vector<std::vector<Use>> uses_;   // by pair of ranks
};

}  // namespace hocket::dsl
