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

namespace hocket::bench {

inline dsl::Contract contract_of(hkt_collective collective) {
    return dsl::contract_of(capi::find_collective(collective).value());
}

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

// Where a collective's parts lie, in elements. `count` is what its function takes.
struct Layout {
    hkt_collective collective;
    hkt_type type;
    hkt_op op;
    int root;
    int rank, ranks;
    std::size_t count;

    dsl::Contract contract() const { return contract_of(collective); }
    // What this rank sends and receives of the data. A rank that sends or receives none has an empty buffer.
    dsl::Share sent() const { return contract().input.of(rank == root); }
    dsl::Share received() const { return contract().output.of(rank == root); }
    bool sends() const { return sent() != dsl::Share::none; }
    bool receives() const { return received() != dsl::Share::none; }
    std::size_t send_count() const { return elements(sent()); }
    std::size_t recv_count() const { return elements(received()); }
    std::size_t larger_count() const { return contract().is_by_rank() ? count * ranks : count; }
    std::size_t larger_bytes() const { return larger_count() * hkt_type_size(type); }
    // What the rank that receives most does.
    std::size_t most_recv_count() const;

    // In place, both buffers are parts of one of larger_count() elements; this is where they begin in it.
    std::size_t send_offset_in_place() const { return offset(sent()); }
    std::size_t recv_offset_in_place() const { return offset(received()); }
    // The part of that one buffer that is sent or received.
    Range used_in_place() const;
    // The part of what is sent that the result overwrites.
    Range covered_in_place() const;

  private:
    std::size_t elements(dsl::Share share) const;
    std::size_t offset(dsl::Share share) const { return share == dsl::Share::own ? rank * count : 0; }
};

// The layout whose larger buffer has `bytes` bytes, rounded down to whole elements of all ranks.
Layout layout_for(hkt_collective collective, hkt_type type, hkt_op op, int root, int rank, int ranks,
                  std::size_t bytes);

// The layouts of `bytes`, in their order, those that rounding makes equal once. One without elements only if
// bytes holds a 0.
std::vector<Layout> layouts_for(hkt_collective collective, hkt_type type, hkt_op op, int root, int rank,
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
