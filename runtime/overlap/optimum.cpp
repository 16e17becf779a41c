#include "runtime/overlap/optimum.hpp"

#include <algorithm>
#include <limits>

#include "runtime/overlap/pipeline.hpp"

namespace hocket::overlap {
namespace {

// W(i), the shortest time of layers i+1..L alone, is the minimum over j of communication(i, j) +
// max(computation(i, L), W(j)): nothing computes until the first batch has arrived; after that, all of these
// layers must compute, and those behind j must communicate and compute.
Batches fastest(const Sums& sums, std::uint64_t limit) {
    const std::size_t all = sums.layers();
    std::vector<double> best(all + 1, std::numeric_limits<double>::infinity());
    std::vector<std::size_t> next(all);
    best[all] = 0;
    for (std::size_t i = all; i-- > 0;) {
        const double computation = sums.computation(i, all);
        for (std::size_t j = i + 1; j <= all && sums.may_be_batch(i, j, limit); ++j) {
            const double communication = sums.communication(i, j);
            if (communication + computation > best[i]) break;  // and the same holds for each following j
            const double seconds = communication + std::max(computation, best[j]);
            if (seconds < best[i]) {
                best[i] = seconds;
                next[i] = j;
            }
        }
    }
    Batches batches;
    for (std::size_t i = 0; i < all; i = next[i]) batches.push_back(next[i]);
    return batches;
}

// Returns the plan with the fewest batches that ends by `deadline`; empty if there is none, or none because
// of rounding. A plan ends in time if, for each batch (j, i), the communication up to i and the computation
// from j on fit into the deadline together. So for the first i layers only the number of their batches
// matters, and it grows with i: the first feasible j is the best. A j that is infeasible for i is infeasible
// for all following i.
Batches fewest(const Sums& sums, std::uint64_t limit, double deadline) {
    const std::size_t all = sums.layers();
    std::vector<std::size_t> count(all + 1, 0), from(all + 1, 0);
    for (std::size_t i = 1, j = 0; i <= all; ++i) {
        const auto will_do = [&] {
            const double startups = static_cast<double>(count[j] + 1) * sums.startup();
            return sums.may_be_batch(j, i, limit) &&
                   startups + sums.transfer(0, i) + sums.computation(j, all) <= deadline;
        };
        while (j < i && !will_do()) ++j;
        if (j == i) return {};
        from[i] = j;
        count[i] = count[j] + 1;
    }
    Batches reversed;
    for (std::size_t i = all; i > 0; i = from[i]) reversed.push_back(i);
    return {reversed.rbegin(), reversed.rend()};
}

}  // namespace

Batches optimum(const Sums& sums, std::uint64_t limit) {
    constexpr double rounding = 1e-12;
    const Batches fast = fastest(sums, limit);
    const double seconds = seconds_of(sums, fast);
    const Batches few = fewest(sums, limit, seconds * (1 + rounding));
    const bool is_better = !few.empty() && few.size() < fast.size() && seconds_of(sums, few) <= seconds;
    return is_better ? few : fast;
}

}  // namespace hocket::overlap
