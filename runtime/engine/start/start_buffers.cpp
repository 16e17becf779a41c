#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

// Returns, by pair, the pieces for the other ranks, or those from them, beginning with the next rank.
std::vector<Stretch> pieces_of(const Start& start, const Layout& layout, bool is_received) {
    const dsl::RankProgram& program = start.plan->program();
    std::vector<Stretch> pieces;
    for (dsl::Rank i = 1; i <= program.ranks; ++i) {
        const dsl::Rank peer = (program.rank + i) % program.ranks;
        const std::uint64_t begin = start.plan->element() * (is_received ? layout.place_received_from(peer)
                                                                         : layout.place_sent_to(peer));
        const std::uint64_t bytes =
            start.plan->element() * (is_received ? layout.received_from(peer) : layout.sent_to(peer));
        if (bytes > 0) pieces.push_back({begin, begin + bytes});
    }
    return pieces;
}

std::vector<Stretch> stretches(const Start& start, dsl::Share share, bool is_received) {
    const Layout layout = layout_of(start);
    if (start.plan->is_by_pair()) return pieces_of(start, layout, is_received);
    return {{0, bytes_of(start, layout, share)}};
}

}  // namespace

Layout layout_of(const Start& start) {
    return start.uneven ? *start.uneven : Layout(start.plan->elements_of_x(start.count));
}

bool has_elements(const Plan& plan, const Extent& extent, dsl::Share share) {
    const dsl::RankProgram& program = plan.program();
    if (share == dsl::Share::none) return false;
    const bool is_piece = share == dsl::Share::own && extent.uneven;
    return (is_piece ? extent.uneven->piece_count(program.rank, program.ranks) : extent.count) > 0;
}

std::uint64_t bytes_of(const Start& start, const Layout& layout, dsl::Share share) {
    const dsl::RankProgram& program = start.plan->program();
    const bool is_own = share == dsl::Share::own;
    if (share == dsl::Share::none) return 0;
    return start.plan->element() *
           (is_own ? layout.piece_count(program.rank, program.ranks) : layout.count());
}

std::vector<Stretch> stretches_sent(const Start& start) {
    return stretches(start, start.plan->input(), false);
}

std::vector<Stretch> stretches_received(const Start& start) {
    return stretches(start, start.plan->output(), true);
}

}  // namespace hocket::engine
