#include "tools/schedc/imports/coarsen.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace hocket::tools::imports {
namespace {

// The transfers of a chunk: round, sender, receiver, whether they combine.
using Way = std::vector<std::tuple<std::size_t, int, int, bool>>;

// For each chunk the number of those that go like it, counted from 0 by their first chunks. Nothing if these
// classes differ in size.
std::optional<std::vector<int>> classes_of(const Algorithm& algorithm, const Slots& slots,
                                           const std::vector<Round>& rounds) {
    std::vector<Way> ways(algorithm.chunks);
    for (std::size_t round = 0; round < rounds.size(); ++round)
        for (const Transfer& one : rounds[round])
            ways[slots.chunk_of(one.source)].emplace_back(round, one.from, one.to, one.combines);
    std::map<Way, int> numbers;
    std::vector<int> classes, sizes;
    for (Way& way : ways) {
        std::ranges::sort(way);
        const int number =
            numbers.try_emplace(std::move(way), static_cast<int>(numbers.size())).first->second;
        sizes.resize(numbers.size());
        ++sizes[number];
        classes.push_back(number);
    }
    if (std::ranges::any_of(sizes, [&](int size) { return size != sizes[0]; })) return std::nullopt;
    return classes;
}

}  // namespace

void coarsen(Algorithm& algorithm, std::vector<Round>& rounds) {
    const Slots before(algorithm);
    if (before.by_rank()) return;
    const std::optional<std::vector<int>> classes = classes_of(algorithm, before, rounds);
    if (!classes) return;
    const int count = *std::ranges::max_element(*classes) + 1;
    algorithm.chunks_of_one = algorithm.chunks / count;
    algorithm.chunks = count;
    algorithm.chunks_of_piece = count % algorithm.ranks() == 0 ? count / algorithm.ranks() : 0;
    const Slots after(algorithm);
    for (Round& round : rounds) {
        std::map<std::tuple<int, int, int>, Transfer> together;
        for (Transfer one : round) {
            const int chunk = (*classes)[before.chunk_of(one.source)];
            one.source = after.fixed(one.from, false, chunk);
            one.target = after.fixed(one.to, false, chunk);
            const auto [found, is_new] = together.try_emplace({one.from, one.to, chunk}, one);
            Transfer& first = found->second;
            first.has_more = first.has_more || first.sender != one.sender || first.receiver != one.receiver;
        }
        round.clear();
        for (const auto& [key, one] : together) round.push_back(one);
    }
}

}  // namespace hocket::tools::imports
