#include "dsl/planning/tile_search.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

// Numbers of tiles: the most that is tried, and the most that is followed on so many ranks. Of larger ones
// those are followed whose graphs are small.
constexpr std::int64_t most_chosen_tiles = 1024, most_followed_tiles = 16;
constexpr std::size_t most_followed_moves = 1 << 15;
constexpr std::int64_t followed_tiles(Rank ranks) {
    const auto with_so_many_moves = most_followed_moves / static_cast<std::size_t>(ranks);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(with_so_many_moves)), 2,
                                    most_followed_tiles);
}
// No number is chosen whose graph has more moves: to prove so many takes about a second.
constexpr std::size_t most_chosen_moves = 1 << 21;

// A pipeline takes its time for the first tiles, and then as long for each as for the one before. So where
// there are many, the estimate follows two numbers of tiles of the same size, and goes on from there.
std::optional<Candidate> in_tiles_of_size(const Runnable& automatic, Rank ranks, double bytes,
                                          std::int64_t tiles, const Rating& rating) {
    const auto followed = [&](std::int64_t count, double size) {
        return rating(in_tiles(automatic, count), size);
    };
    try {
        const std::int64_t many = followed_tiles(ranks);
        if (tiles <= many) return followed(tiles, bytes);
        const std::int64_t few = many / 2;
        const double tile = bytes / double(tiles);
        const auto after_many = followed(many, tile * double(many));
        if (!after_many) return std::nullopt;
        const std::size_t moves = after_many->moves / std::size_t(many) * std::size_t(tiles);
        if (moves <= most_followed_moves) return followed(tiles, bytes);
        const auto after_few = followed(few, tile * double(few));
        if (!after_few) return std::nullopt;
        Candidate result = *after_many;
        result.runnable = in_tiles(automatic, tiles);
        result.chooser = nullptr;
        result.whole = nullptr;
        result.moves = moves;
        result.seconds +=
            (after_many->seconds - after_few->seconds) / double(many - few) * double(tiles - many);
        return result;
    } catch (const DiagnosticError&) {  // a default or a condition has no value for this number
        return std::nullopt;
    }
}

}  // namespace

std::optional<Candidate> in_best_tiles(const Runnable& automatic, Rank ranks, double bytes,
                                       const Rating& rating) {
    std::optional<Candidate> best;
    std::size_t moves = 0;  // of the number before
    // The first numbers may be none that it runs in.
    for (std::int64_t tiles = 1; tiles <= (best ? most_chosen_tiles : most_followed_tiles); tiles *= 2) {
        if (best && (double(tiles) * usual_value_bytes > bytes || 2 * moves > most_chosen_moves)) break;
        std::optional<Candidate> next = in_tiles_of_size(automatic, ranks, bytes, tiles, rating);
        if (!next && !best) continue;
        // Estimates from one rank's steps are not to be compared with those from all ranks'.
        if (!next || (best && next->is_for_one != best->is_for_one)) break;
        if (best && next->seconds > best->seconds * alike) break;  // more only take longer
        moves = next->moves;
        if (!best || next->seconds < best->seconds) best = std::move(next);
    }
    return best;
}

}  // namespace hocket::dsl
