// The links of a network that are alike: a symmetry of the ranks brings each to each other one of its class.
#pragma once

#include <vector>

#include "dsl/graph/symmetry.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {

class LinkClasses {
  public:
    // Throws AsymmetryError if the network is not the same after each motion. The network must outlive it.
    LinkClasses(const Network& network, const Symmetry& symmetry);

    // Returns the first link of the class.
    LinkId first(LinkId link) const { return first_[link]; }
    // Returns the number of links of the class, for its first; 0 for the others.
    std::uint32_t members(LinkId link) const { return members_[link]; }
    // Returns the number of ranks for each link of the class. That many of the messages that the motions make
    // of one, one for each rank, cross a link of the class if one message crosses one of them.
    double ranks_a_link(LinkId link) const { return static_cast<double>(ranks_) / members_[first_[link]]; }
    // Returns the path with the first link of each class for all, and shares of what all messages like it
    // bring there.
    std::vector<Hop> of_all(const std::vector<Hop>& hops) const;

  private:
    Rank ranks_;
    std::vector<LinkId> first_;           // by link
    std::vector<std::uint32_t> members_;  // by link, if it is a first one
};

// Returns the ranks that share the end of this level's links with rank 0.
std::vector<Rank> ranks_of_end(const Topology& topology, int level);

}  // namespace hocket::dsl
