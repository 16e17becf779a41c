// The pieces of a start by pair, in which each pair of ranks has a count of its own.
//
// Positions count the pieces as if they were contiguous. In the caller's buffers the pieces lie where the
// caller says; in a copy of the input they are contiguous. The work area, which no program by pair uses
// (check_is_direct), tells the local peers where this rank's pieces for them are, because they cannot derive
// that from their own layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/start/input_copy.hpp"

namespace hocket::engine {

// By pair, a rank sends another a message even if it has no elements for it: one meaningless byte, and this
// value in place of the start's checksum. (Not all providers match messages without bytes.)
constexpr std::uint32_t checksum_of_none(std::uint32_t checksum) {
    return ~checksum;
}

// For a GraphRun: where the pieces lie that it moves.
class PairPieces {
  public:
    // binding: of a layout by pair. Both must outlive this.
    PairPieces(const Plan& plan, const Binding& binding) : plan_(&plan), binding_(&binding) {}

    // Of the input, or of the output: the bytes of all pieces, and those from the beginning of the caller's
    // buffer to the end of its last piece.
    std::uint64_t bytes(dsl::AreaId area) const { return buffer(area).count * plan_->element(); }
    std::uint64_t bytes_spanned(dsl::AreaId area) const { return buffer(area).span * plan_->element(); }

    // A lone rank exchanges nothing: it has one piece, and its buffers are treated as if they began at that
    // piece.
    void skip_to_lone_piece(const std::byte*& send, std::byte*& recv) const;

    // Call before the functions below. copy: of the input, where its pieces are contiguous; null: they are
    // read in the caller's buffer.
    void read_from(const std::byte* send, std::byte* copy) { send_ = send, copy_ = copy; }

    // Fills the copy of the input. Returns the bytes that were copied.
    std::uint64_t fill_copy(double factor, ReadBy reader) const;

    // Returns what to add to a boundary's offset to get its place in the input or the output. It is modulo
    // 2^64.
    std::uint64_t shift_of(dsl::AreaId area, dsl::BoundaryId boundary) const {
        const bool is_packed = area == dsl::input_area && copy_;
        return is_packed ? 0 : binding_->byte_shifts[boundary];
    }

    // Places this rank's piece for itself, so that it is read at its position in the output.
    void place_own(std::byte** areas) const;

    // Tells local peers in this rank's work area where the pieces for them are; it takes so many bytes.
    static std::uint64_t shown_bytes(const LocalPeers& local_peers);
    void show(LocalPeers& local_peers, std::byte* work) const;
    // Places a local peer's piece for this rank, whose work area is already placed. Returns the counts if the
    // local peer has another count for this rank than this rank expects.
    std::optional<PairCounts> find(LocalPeers& local_peers, Member member, std::byte** areas) const;

  private:
    struct Shown {
        std::uint64_t offset, count;  // the piece's place in the slice, and its number of elements
    };

    const Layout& layout() const { return binding_->layout; }
    const Layout::Buffer& buffer(dsl::AreaId area) const {
        return area == dsl::input_area ? layout().sent() : layout().received();
    }
    std::byte* piece_for(dsl::Rank rank) const;
    void place(dsl::Rank source, dsl::AreaId input, std::byte* piece, std::byte** areas) const;

    const Plan* plan_;
    const Binding* binding_;
    const std::byte* send_ = nullptr;
    std::byte* copy_ = nullptr;
};

}  // namespace hocket::engine
