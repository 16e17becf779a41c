// The benchmark's data: inputs that differ by rank, position and round; the results that they must give; and
// buffers that detect writes outside of them.
//
// Values are chosen so that results are exact in every type and order of summation. Integers use all their
// bits (sums wrap). Floats are whole numbers so small that no sum over all ranks is rounded. Products are of
// odd integers and powers of two. If combining many ranks would give the same value for almost all bits, few
// of the ranks' bits differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "dsl/base/collective.hpp"
#include "tools/bench/memory.hpp"
#include "tools/bench/subject.hpp"

namespace hocket::bench {

// multiplies() returns true if each rank's input is multiplied before it is combined; factor_of() returns the
// factor. The factors differ, are numbers of every type, and are no larger than largest_factor.
inline bool multiplies(hkt_op op) {
    return row_of(capi::find_op(op).value()).multiplies;
}
inline constexpr int largest_factor = 3;
inline double factor_of(int rank) {
    return largest_factor - rank % largest_factor;
}

// A half-open range.
struct Range {
    std::size_t begin = 0, end = 0;
    bool operator==(const Range&) const = default;
};

// One rank's contribution to a result: `count` elements of its input, from `begin` on.
struct Origin {
    int rank;
    std::size_t begin, count;
};

// The positions of the parts of the measured data, in elements.
struct Layout {
    Subject subject;
    hkt_type type;
    hkt_op op;
    int root;
    int rank, ranks;
    std::size_t count;                     // the function's argument; with counts by rank, their sum
    std::vector<std::size_t> counts = {};  // of this rank's pieces, with counts by rank

    // With counts by rank: assigns these numbers of elements to the pieces. In all_to_all, rank p sends rank
    // q, and q sends p, as many elements as piece p + q (modulo ranks) has. So each rank sends and receives
    // the sum of all.
    void divide(const std::vector<std::size_t>& pieces);

    const dsl::Contract& contract() const { return subject.contract(); }
    // The part of the data that this rank sends and receives. A rank that sends or receives none has an empty
    // buffer.
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
    // Returns what this rank receives as the root or as another rank, whichever is more.
    std::size_t most_recv_count() const;
    // Returns where this rank's result comes from, in the order of its elements. If values are combined there
    // is one origin: it is the root's, and stands for the same places of all ranks.
    std::vector<Origin> origins() const;
    int next_rank() const { return (rank + 1) % ranks; }
    int rank_before() const { return (rank + ranks - 1) % ranks; }

    // In place, both buffers are parts of one with larger_count() elements; these return where they begin in
    // it.
    std::size_t send_offset_in_place() const { return offset(sent()); }
    std::size_t recv_offset_in_place() const { return offset(received()); }
    // Returns the part of that buffer that is sent or received.
    Range used_in_place() const;
    // Returns the part of the sent data that the result overwrites.
    Range covered_in_place() const;

  private:
    std::size_t elements(dsl::Share share) const;
    std::size_t offset(dsl::Share share) const {
        return share == dsl::Share::own ? piece_begin(rank, rank) : 0;
    }
    // Returns the size of a piece in one rank's buffer.
    std::size_t piece_count(int of_rank, int piece) const;
    std::size_t piece_begin(int of_rank, int piece) const;
};

// With counts by rank: divides `count` elements as 1 : 3 : 5 : ..., apart from rounding.
std::vector<std::size_t> uneven_pieces(std::size_t count, int ranks);

// Returns the layout whose larger buffer has `bytes` bytes, rounded down to whole elements on all ranks. With
// counts by rank: rounded down to whole elements, and divided as uneven_pieces does.
Layout layout_for(const Subject& subject, hkt_type type, hkt_op op, int root, int rank, int ranks,
                  std::size_t bytes);

// Returns the layouts for `bytes`, in order; if rounding makes several equal, one of them. A layout without
// elements is included only if bytes has a 0.
std::vector<Layout> layouts_for(const Subject& subject, hkt_type type, hkt_op op, int root, int rank,
                                int ranks, const std::vector<std::size_t>& bytes);

// Fills in the data that this rank sends in a round.
void fill_input(const Layout& layout, std::uint64_t round, void* send);

// Returns the number of elements of recv that differ from the expected result of the round's inputs on this
// rank.
std::size_t count_wrong(const Layout& layout, std::uint64_t round, const void* recv);

// The first wrong element, for a report.
struct WrongElement {
    std::size_t index;
    std::string found, expected;
};
std::optional<WrongElement> first_wrong(const Layout& layout, std::uint64_t round, const void* recv);

// Returns the number of elements of send that are no longer this round's input. In place, the part that recv
// covers is not counted.
std::size_t count_overwritten(const Layout& layout, std::uint64_t round, const void* send, Range skipped);

// Memory between two guard zones. If it is a device's, the benchmark works on the host's copy, between
// from_device() and to_device().
class GuardedBuffer {
  public:
    explicit GuardedBuffer(std::size_t bytes, const Allocate& allocate = private_memory);
    void* data() { return at(0); }
    void* at(std::size_t offset) { return begin() + guard_bytes + offset; }
    // Returns the same place as operations take it.
    void* given(std::size_t offset = 0) {
        return static_cast<unsigned char*>(memory_.given()) + guard_bytes + offset;
    }
    void to_device() const {
        if (memory_.upload) memory_.upload();
    }
    void from_device() const {
        if (memory_.download) memory_.download();
    }
    void poison();                                       // so that an earlier result can't pass for this one
    std::size_t overwritten_guards() const;              // in bytes
    std::size_t overwritten_outside(Range bytes) const;  // bytes outside the range that have lost the poison

  private:
    static constexpr std::size_t guard_bytes = 4096;
    unsigned char* begin() const { return static_cast<unsigned char*>(memory_.host.get()); }
    unsigned char* end() const { return begin() + bytes_ + 2 * guard_bytes; }

    std::size_t bytes_;
    Memory memory_;
};

}  // namespace hocket::bench
