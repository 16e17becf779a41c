// The benchmark's data: inputs that tell rank, position and round apart, the results that must come of them,
// and buffers that notice writes outside them.
//
// Values are chosen so that results are exact in every type and order of summation: integers take all their
// bits (sums wrap), floats are whole numbers so small that no sum of all ranks is rounded; for products, odd
// integers and powers of two. Where many ranks would make the same of almost all bits, few of them differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "dsl/base/collective.hpp"
#include "tools/bench/subject.hpp"

namespace hocket::bench {

// Whether each rank's input is multiplied before it is combined; and by what. The factors differ, are numbers
// of every type, and no larger than largest_factor.
inline bool multiplies(hkt_op op) {
    return row_of(capi::find_op(op).value()).multiplies;
}
inline constexpr int largest_factor = 3;
inline double factor_of(int rank) {
    return largest_factor - rank % largest_factor;
}

// From begin to before end.
struct Range {
    std::size_t begin = 0, end = 0;
    bool operator==(const Range&) const = default;
};

// What one rank's input gives to a result: so many elements, from `begin` on.
struct Origin {
    int rank;
    std::size_t begin, count;
};

// Where the parts of what is measured lie, in elements.
struct Layout {
    Subject subject;
    hkt_type type;
    hkt_op op;
    int root;
    int rank, ranks;
    std::size_t count;                     // what its function takes; with counts by rank, their sum
    std::vector<std::size_t> counts = {};  // of this rank's pieces, with counts by rank

    // Gives the pieces so many elements, with counts by rank. Of all_to_all rank p sends to rank q, and q to
    // p, as many as piece p + q (modulo ranks) has: so each rank sends and receives all of them.
    void divide(const std::vector<std::size_t>& pieces);

    const dsl::Contract& contract() const { return subject.contract(); }
    // What this rank sends and receives of the data. A rank that sends or receives none has an empty buffer.
    dsl::Share sent() const { return contract().input.of(rank == root); }
    dsl::Share received() const { return contract().output.of(rank == root); }
    bool sends() const { return sent() != dsl::Share::none; }
    bool receives() const { return received() != dsl::Share::none; }
    std::size_t send_count() const { return elements(sent()); }
    std::size_t recv_count() const { return elements(received()); }
    std::size_t larger_count() const {
        return contract().is_by_rank() && !subject.has_counts() ? count * ranks : count;
    }
    std::size_t larger_bytes() const { return larger_count() * hkt_type_size(type); }
    // What this rank receives as the root or as another, whichever is more.
    std::size_t most_recv_count() const;
    // Where this rank's result comes from, in the order of its elements. Where values are combined it is one:
    // of the root, and all ranks' in the same places.
    std::vector<Origin> origins() const;
    int next_rank() const { return (rank + 1) % ranks; }
    int rank_before() const { return (rank + ranks - 1) % ranks; }

    // In place, both buffers are parts of one of larger_count() elements; this is where they begin in it.
    std::size_t send_offset_in_place() const { return offset(sent()); }
    std::size_t recv_offset_in_place() const { return offset(received()); }
    // The part of that one buffer that is sent or received.
    Range used_in_place() const;
    // The part of what is sent that the result overwrites.
    Range covered_in_place() const;

  private:
    std::size_t elements(dsl::Share share) const;
    std::size_t offset(dsl::Share share) const {
        return share == dsl::Share::own ? piece_begin(rank, rank) : 0;
    }
    // Of the pieces in some rank's buffer.
    std::size_t piece_count(int of_rank, int piece) const;
    std::size_t piece_begin(int of_rank, int piece) const;
};

// How `count` elements are divided with counts by rank, but for what rounding takes: 1 : 3 : 5 : ...
std::vector<std::size_t> uneven_pieces(std::size_t count, int ranks);

// The layout whose larger buffer has `bytes` bytes, rounded down to whole elements of all ranks; with counts
// by rank to whole elements, in uneven_pieces.
Layout layout_for(const Subject& subject, hkt_type type, hkt_op op, int root, int rank, int ranks,
                  std::size_t bytes);

// The layouts of `bytes`, in their order, those that rounding makes equal once. One without elements only if
// bytes holds a 0.
std::vector<Layout> layouts_for(const Subject& subject, hkt_type type, hkt_op op, int root, int rank,
                                int ranks, const std::vector<std::size_t>& bytes);

// What this rank sends in a round.
void fill_input(const Layout& layout, std::uint64_t round, void* send);

// The number of elements of recv that are not what the round's inputs must give on this rank.
std::size_t count_wrong(const Layout& layout, std::uint64_t round, const void* recv);

// The first of them, for a report.
struct WrongElement {
    std::size_t index;
    std::string found, expected;
};
std::optional<WrongElement> first_wrong(const Layout& layout, std::uint64_t round, const void* recv);

// The number of elements of send that are no longer this round's input. In place, the part that recv covers
// is left out.
std::size_t count_overwritten(const Layout& layout, std::uint64_t round, const void* send, Range skipped);

// Where buffers come from: page-aligned memory of at least so many bytes.
using Allocate = std::function<std::shared_ptr<void>(std::size_t bytes)>;
std::shared_ptr<void> private_memory(std::size_t bytes);

// Memory between two guard zones.
class GuardedBuffer {
  public:
    explicit GuardedBuffer(std::size_t bytes, const Allocate& allocate = private_memory);
    void* data() { return memory_ + guard_bytes; }
    void* at(std::size_t offset) { return memory_ + guard_bytes + offset; }
    void poison();                                       // so that a result left over from before can't pass
    std::size_t overwritten_guards() const;              // bytes
    std::size_t overwritten_outside(Range bytes) const;  // of the poison: bytes

  private:
    static constexpr std::size_t guard_bytes = 4096;
    unsigned char* end() const { return memory_ + bytes_ + 2 * guard_bytes; }

    std::size_t bytes_;
    std::shared_ptr<void> owner_;
    unsigned char* memory_;
};

}  // namespace hocket::bench
