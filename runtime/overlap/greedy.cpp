#include "runtime/overlap/greedy.hpp"

#include <algorithm>

namespace hocket::overlap {
namespace {

// Eq. (5): the computation of layers (i, j) takes at least as long as the communication of layers (j, k).
bool is_covered(const Sums& sums, std::size_t i, std::size_t j, std::size_t k) {
    return sums.communication(j, k) >= sums.computation(i, j);
}

// Returns the k with the shortest communication (j, k) that Eq. (5) admits; the last layer if it admits none.
std::size_t shortest_cover(const Sums& sums, std::size_t i, std::size_t j) {
    std::size_t k = j + 1;
    while (k < sums.layers() && !is_covered(sums, i, j, k)) ++k;
    while (k < sums.layers() && sums.transfer(k, k + 1) == 0) ++k;
    return k;
}

// Returns the i with the longest computation (i, j) that Eq. (5) admits for the communication (j, k); j - 1
// if it admits none.
std::size_t longest_covered(const Sums& sums, std::size_t j, std::size_t k) {
    std::size_t i = j - 1;
    while (i > 0 && (is_covered(sums, i - 1, j, k) || sums.computation(i - 1, i) == 0)) --i;
    return i;
}

}  // namespace

Batches algorithm1(const Sums& sums) {
    const std::size_t all = sums.layers();
    if (all == 1) return {1};
    // Lines 2 to 5. At most all following layers communicate while (0, l1) computes: if they do not cover its
    // computation, no pair with l1 does. Computations grow with l1, so the last admissible l1 is the best; if
    // later ones do not compute longer, the first of those.
    std::size_t first = 0;
    for (std::size_t l1 = 1; l1 < all; ++l1)
        if (is_covered(sums, 0, l1, all) &&
            (first == 0 || sums.computation(0, l1) > sums.computation(0, first)))
            first = l1;
    if (first == 0) return {1, all};
    Batches batches{first, shortest_cover(sums, 0, first)};
    while (batches.back() != all)  // lines 8 to 14
        batches.push_back(shortest_cover(sums, batches[batches.size() - 2], batches.back()));
    return batches;
}

Batches algorithm2(const Sums& sums) {
    const std::size_t all = sums.layers();
    if (all == 1) return {1};
    // Lines 2 to 5, from the last l of N - 1 on: the computation of the last batch grows from here. If no
    // pair is admissible, those with one layer miss the constraint by the least.
    std::size_t last = 0, nearest = all - 1;
    double longest = -1;
    const auto missed = [&](std::size_t l) {
        return sums.computation(l - 1, l) - sums.communication(l, all);
    };
    for (std::size_t l = all - 1; l > 0; --l) {
        const std::size_t before = longest_covered(sums, l, all);
        if (is_covered(sums, before, l, all) && sums.computation(before, l) > longest) {
            longest = sums.computation(before, l);
            last = l;
        }
        if (missed(l) < missed(nearest)) nearest = l;
    }
    if (last == 0) last = nearest;
    Batches reversed{all, last};
    while (reversed.back() > 0)  // lines 8 to 14; the first step's second choice is as the rest
        reversed.push_back(longest_covered(sums, reversed.back(), reversed[reversed.size() - 2]));
    reversed.pop_back();
    return {reversed.rbegin(), reversed.rend()};
}

Batches mg_wfbp(const Sums& sums) {
    const std::size_t all = sums.layers();
    Batches reversed{all};
    double start = sums.computation(all - 1, all);  // when the growing batch can begin to communicate
    for (std::size_t l = all - 1; l > 0; --l) {
        const double ready = sums.computation(l - 1, all);  // when the gradients of layer l are ready
        if (ready >= start + sums.startup()) {
            start += sums.communication(l, reversed.back());
            reversed.push_back(l);
        }
        start = std::max(start, ready);
    }
    return {reversed.rbegin(), reversed.rend()};
}

Batches buckets(const Sums& sums, Direction direction, std::uint64_t bytes) {
    const std::size_t all = sums.layers();
    Batches batches;
    if (direction == Direction::forward) {
        for (std::size_t i = 0, j = 1; j <= all; ++j)
            if (j == all || sums.bytes(i, j) >= bytes) batches.push_back(i = j);
        return batches;
    }
    batches.push_back(all);
    for (std::size_t i = all - 1; i > 0; --i)
        if (sums.bytes(i, batches.back()) >= bytes) batches.push_back(i);
    return {batches.rbegin(), batches.rend()};
}

}  // namespace hocket::overlap
