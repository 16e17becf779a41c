#include "runtime/engine/run/pair_pieces.hpp"

#include "runtime/engine/plan/address.hpp"

namespace hocket::engine {

void PairPieces::skip_to_lone_piece(const std::byte*& send, std::byte*& recv) const {
    send = address(const_cast<std::byte*>(send), layout().place_sent_to(0) * plan_->element());
    recv = address(recv, layout().place_received_from(0) * plan_->element());
}

std::byte* PairPieces::piece_for(dsl::Rank rank) const {
    if (copy_) return address(copy_, layout().begin_sent_to(rank) * plan_->element());
    return address(const_cast<std::byte*>(send_), layout().place_sent_to(rank) * plan_->element());
}

std::uint64_t PairPieces::fill_copy(double factor, ReadBy reader) const {
    const std::uint64_t element = plan_->element();
    for (dsl::Rank rank = 0; rank < plan_->program().ranks; ++rank)
        if (const std::uint64_t bytes = layout().sent_to(rank) * element; bytes > 0)
            copy_input(*plan_, factor, piece_for(rank), send_ + layout().place_sent_to(rank) * element, bytes,
                       reader);
    return bytes(dsl::input_area);
}

void PairPieces::place_own(std::byte** areas) const {
    const dsl::Rank self = plan_->program().rank;
    place(self, dsl::input_area, piece_for(self), areas);
}

// Places the piece so that it is read at its position in this rank's output, where pieces are contiguous.
// input: the area of the source's input.
void PairPieces::place(dsl::Rank source, dsl::AreaId input, std::byte* piece, std::byte** areas) const {
    const dsl::RankProgram& program = plan_->program();
    const std::uint64_t begin =
        (layout().sent().count + layout().begin_received_from(source)) * plan_->element();
    for (std::size_t i = 0; i < program.shifted.size(); ++i)
        if (program.shifted[i].of == input) areas[program.first_shifted() + i] = virtual_base(piece, begin);
}

std::uint64_t PairPieces::shown_bytes(const LocalPeers& local_peers) {
    return static_cast<std::uint64_t>(local_peers.members()) * sizeof(Shown);
}

void PairPieces::show(LocalPeers& local_peers, std::byte* work) const {
    auto* const shown = reinterpret_cast<Shown*>(work);
    for (Member member = 0; member < local_peers.members(); ++member) {
        const dsl::Rank rank = local_peers.ranks()[static_cast<std::size_t>(member)];
        const std::uint64_t count = layout().sent_to(rank);
        const auto offset = local_peers.window().offset_of(piece_for(rank), count * plan_->element());
        shown[member] = {offset.value_or(0), count};  // a piece without elements may be anywhere
    }
}

std::optional<PairCounts> PairPieces::find(LocalPeers& local_peers, Member member, std::byte** areas) const {
    const dsl::Rank source = local_peers.ranks()[static_cast<std::size_t>(member)];
    const std::byte* const work = areas[local_peers.area_of(member, dsl::work_area)];
    const Shown& shown = reinterpret_cast<const Shown*>(work)[local_peers.self()];
    const std::uint64_t expected = layout().received_from(source);
    if (shown.count != expected) return PairCounts{shown.count, expected};
    std::byte* const piece = local_peers.window().at(member, shown.offset, expected * plan_->element());
    place(source, local_peers.area_of(member, dsl::input_area), piece, areas);
    return std::nullopt;
}

}  // namespace hocket::engine
