// Chooses the algorithms for the statements of a schedule that name none.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/elaboration/elaborate.hpp"
#include "dsl/planning/estimate.hpp"

namespace hocket::dsl {

// Finds the best algorithm for each group, once.
class GroupAlgorithms {
  public:
    struct Found {
        const ast::Algorithm* algorithm = nullptr;  // null: no algorithm is right
        std::string text;                           // the algorithms and their estimates
    };

    // All references must outlive it. deadline: of each call; may change between calls.
    GroupAlgorithms(const Library& library, const Topology& topology, const Deadline& deadline)
        : library_(library), topology_(topology), deadline_(deadline) {}

    const Library& library() const { return library_; }
    const Topology& topology() const { return topology_; }
    const Deadline& deadline() const { return deadline_; }

    // Of the algorithms that allow the group and are right on it, returns the one with the lowest estimate
    // for this many bytes. The result is valid as long as this object. Throws DeadlineError.
    const Found& find(Collective collective, const Group& group, double bytes);

  private:
    struct Estimated {
        const ast::Algorithm* algorithm;
        Estimate estimate;
    };
    struct Rated {
        const ast::Algorithm* algorithm;
        double seconds;
        std::size_t peers;
        double stretches;  // of a message, on average

        auto key() const { return std::tuple(std::llround(seconds * 1e9), stretches); }
    };

    const std::vector<Estimated>& candidates(Collective collective, const Group& group);
    bool is_right(const ast::Algorithm& algorithm, Rank size);
    std::vector<Rated> ranked(Collective collective, const Group& group, double bytes);
    Found search(Collective collective, const Group& group, double bytes);

    const Library& library_;
    const Topology& topology_;
    const Deadline& deadline_;
    std::map<std::pair<Collective, std::vector<int>>, std::vector<Estimated>> candidates_;
    std::map<std::tuple<Collective, std::vector<int>, double>, Found> known_;
    std::map<std::pair<const ast::Algorithm*, Rank>, bool> right_;
};

// Returns the part of x that each statement without `using` works on, in the order in which the statements
// are laid out. Throws DiagnosticError.
std::vector<double> parts_of_statements(const Runnable& runnable, const Library& library,
                                        const Topology& topology, Rank root, const Deadline& deadline);

}  // namespace hocket::dsl
