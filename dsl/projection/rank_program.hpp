// The program of one rank. It is the end of the language's pipeline (text -> ast -> step graph -> verified ->
// projected) and the input of the runtime (runtime/compute/jit compiles it, runtime/engine executes it).
//
// A program works on the collective's buffer x, of `count` elements, in *areas* of memory:
//
//   area 0  input    the caller's send buffer, never written
//   area 1  output   the caller's recv buffer
//   area 2  work     private, as large as x: partial results for which the output has no room
//   then    three for each of the rank's local peers (ranks of the same host): its input, output and work,
//           read and written in place
//   then    scratch  private; one slot per message that is combined or staged, in which that message lands
//   then    kept     states, which live as long as the plan, and buffers that the caller gives besides x
//   then    shifted  one of the above, read at a position other than the one that the operation writes
//
// Positions are given as *boundaries*: exact fractions of x, shared by all operations. For a count, boundary
// b is at element floor(b * count). If data change places (all_to_all), the result of the first exchange has
// the positions from 1 to 2, that of the second those from 2 to 3. The output is the last of these buffers,
// and the work area is as large as all of them. All areas are addressed by position: for each area the
// runtime keeps a virtual base such that
//
//   address(area, boundary) = base[area] + offset(boundary) * element_size
//
// A schedule that computes has more buffers, at positions of their own (dsl/graph/computation.hpp): states
// and given buffers, which have an area each, and in the work area the pieces of selections and sums.
//
// An input or output may hold only a part of x (dsl/base/collective.hpp); its virtual base is the
// caller's pointer less the offset of boundary `input_origin` or `output_origin`. A scratch slot's
// virtual base is its memory less the offset of the slot's own begin.
//
// Signals order the use of local peers' memory: each rank counts its own, and `await` blocks until a local
// peer's count reaches a number. The first signal says that the rank has entered, so that its areas may be
// used. If the operations run one after another in program order, local peers never wait for each other in a
// circle.
//
// All that a rank sends to another in one phase is one message. Its parts may be in several places, and in
// different places on the two sides: the message consists of their elements, one part after the other.
//
// Operations are in program order. An operation may start once those it waits for (always earlier ones) are
// complete; dependencies come from overlapping regions alone. Operations whose region is empty for a count
// (offset(begin) == offset(end), for all parts) are complete from the start, on every rank alike: an empty
// message is neither sent nor expected.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/rational.hpp"
#include "dsl/graph/computation.hpp"
#include "dsl/graph/region.hpp"

namespace hocket::dsl {

// The resource that a program for ranks with shared memory saves. bandwidth, for large buffers: every byte is
// moved as few times as possible. latency, for small ones: ranks wait for each other as few times as
// possible. The runtime then shows local peers a copy of the caller's input, so `input` and `output` are
// never the same memory.
enum class Protocol : std::uint8_t { bandwidth, latency };

using AreaId = std::uint32_t;
using BoundaryId = std::uint32_t;
using OpId = std::uint32_t;

inline constexpr AreaId input_area = 0, output_area = 1, work_area = 2, areas_of_a_rank = 3;

// The elements x[begin, end) of an area.
struct MessagePart {
    BoundaryId begin, end;
    AreaId area;
    friend bool operator==(const MessagePart&, const MessagePart&) = default;
};

// The operations of a program:
//
//   send     x[begin, end) of `area`, then the further parts, to `peer`
//   receive  from `peer` into x[begin, end) of `area`, then into the further parts
//   combine  area[i] = operands[0][i] op operands[1][i] op ..., left to right; one of the operands may be
//            `area` itself
//   copy     area[i] = operands[0][i]; does nothing if both are the same place
//   signal   tells the local peers that signal number `message`, counted from 1, has been reached
//   await    blocks until the local peer `peer` has reached its signal `message`
//   compute  x[begin, end) of `area`, or the rank's piece of a selection or of sums: `computation`
//
// ROW(name, role, its operands: the least number, the most,
//     what a rank does that runs it, for people; empty if it depends on another rank: reports name that rank)
//
// A new operation is a row, and a kernel in each executor of its role: the compiler names those that lack it.
#define HOCKET_OPERATIONS(ROW)                                                     \
    ROW(send, message, 0, 0, "")                                                   \
    ROW(receive, message, 0, 0, "")                                                \
    ROW(combine, elements, 2, any_number, "combining")                             \
    ROW(copy, elements, 1, 1, "copying")                                           \
    ROW(signal, order, 0, 0, "telling the ranks of this host how far this one is") \
    ROW(await, order, 0, 0, "")                                                    \
    ROW(compute, computation, 0, 0, "computing")

#define HOCKET_NAME(name, ...) name,
#define HOCKET_CASE(name, role, ...) \
    case Kind::name:                 \
        return Role::role;
struct Op {
    enum class Kind : std::uint8_t { HOCKET_OPERATIONS(HOCKET_NAME) };
    // The work of an operation, as far as the ways to run a program differ by it.
    enum class Role : std::uint8_t {
        message,      // goes to another rank, or comes from it
        order,        // moves nothing
        elements,     // area[i] = f(operands[0][i], operands[1][i], ...), `also` the same: Executor::run
        computation,  // compute::Computer runs it
    };
    Kind kind;
    BoundaryId begin, end;
    AreaId area;
    std::vector<AreaId> operands = {};      // element-wise ones
    std::vector<AreaId> also = {};          // element-wise ones: further areas that receive the same result
    std::vector<MessagePart> further = {};  // send, receive: the parts after the first, in order
    // compute: index into computations. reads: a part for each of its elements, then the pieces that the rank
    // holds of each of its sparse terms, and of each of its sums.
    std::uint32_t computation = 0;
    // combine: the computation that is applied to every result before it is written, or no_epilogue. It reads
    // nothing but that result, so one pass does both; the result has the same bits as with two passes.
    std::uint32_t epilogue = no_epilogue;
    static constexpr std::uint32_t no_epilogue = ~std::uint32_t{0};
    std::vector<std::vector<MessagePart>> reads = {};
    Rank peer = -1;               // send, receive, await
    std::uint32_t message = 0;    // send, receive: index of the message among those from sender to receiver
    bool completes = false;       // combine: the result holds all ranks' contributions, and is final
    bool guards_buffers = false;  // await: only keeps the caller's buffers lent until `peer` has finished
                                  // with them; not needed if local peers were shown copies of them
    std::uint32_t origin = 0;     // index into origins: the source line of this operation
    std::uint32_t phase = 0;      // number of the `each` it belongs to (for people)
    std::uint32_t waits_for = 0;  // number of earlier operations that list this one as successor
    std::vector<OpId> successors = {};

    bool is_message() const { return role_of(kind) == Role::message; }
    bool is_order() const { return role_of(kind) == Role::order; }
    bool is_elementwise() const { return role_of(kind) == Role::elements; }
    // A switch instead of a look into a table, because runs ask at each operation.
    static constexpr Role role_of(Kind kind) {
        // Rows of one role follow each other. NOLINTNEXTLINE(bugprone-branch-clone)
        switch (kind) { HOCKET_OPERATIONS(HOCKET_CASE) }
        return Role::order;
    }

    std::size_t parts() const { return 1 + further.size(); }
    MessagePart part(std::size_t i) const { return i == 0 ? MessagePart{begin, end, area} : further[i - 1]; }
    friend bool operator==(const Op&, const Op&) = default;
};
#undef HOCKET_NAME
#undef HOCKET_CASE

// A row of HOCKET_OPERATIONS.
struct OperationRow {
    std::string_view name;
    std::size_t least_operands, most_operands;
    std::string_view doing;
};
inline constexpr std::size_t any_number = SIZE_MAX;
inline constexpr OperationRow operation_rows[] = {
#define HOCKET_ROW(name, role, least, most, doing) {#name, least, most, doing},
    HOCKET_OPERATIONS(HOCKET_ROW)
#undef HOCKET_ROW
};

constexpr const OperationRow& row_of(Op::Kind kind) {
    return operation_rows[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name_of(Op::Kind kind) {
    return row_of(kind).name;
}

// Calls call(area, begin, end) for each range that an operation reads, as boundaries of the area.
template <typename Call>
void for_reads(const Op& op, Call call) {
    if (op.kind == Op::Kind::send)
        for (std::size_t i = 0; i < op.parts(); ++i) call(op.part(i).area, op.part(i).begin, op.part(i).end);
    for (const AreaId operand : op.operands) call(operand, op.begin, op.end);
    for (const auto& parts : op.reads)
        for (const MessagePart& part : parts) call(part.area, part.begin, part.end);
}

// Calls call(area, begin, end) for each range that an operation writes.
template <typename Call>
void for_writes(const Op& op, Call call) {
    if (op.kind == Op::Kind::send || op.is_order()) return;
    for (std::size_t i = 0; i < op.parts(); ++i) call(op.part(i).area, op.part(i).begin, op.part(i).end);
    for (const AreaId area : op.also) call(area, op.begin, op.end);
}

// A place in the source, for errors, traces and `schedc explain`.
struct Origin {
    std::string location;  // "schedules/ring.sched:5"
    std::string text;      // the transfer as written: "x[r - s] : r +> r + 1"
    std::string context;   // "reduce_scatter x over levels[0] (blueconnect.sched:3)"; may be empty
    friend bool operator==(const Origin&, const Origin&) = default;
};

struct ScratchSlot {
    BoundaryId begin, end;
    friend bool operator==(const ScratchSlot&, const ScratchSlot&) = default;
};

// The area `of`, placed so that its content at boundary `from` is read at boundary `at`.
struct ShiftedArea {
    AreaId of;
    BoundaryId from, at;
    friend bool operator==(const ShiftedArea&, const ShiftedArea&) = default;
};

// A buffer besides x, as it appears in one rank's program.
struct ProgramBuffer {
    ExtraBuffer buffer;
    std::vector<Interval> regions;               // by rank, in x: ExtraBuffer::regions
    std::int32_t area = -1;                      // index among the kept areas, or -1
    std::vector<std::vector<Holding>> holdings;  // of a state, by rank: Completion::holdings
};

// The positions from one boundary to another.
struct Stretch {
    BoundaryId begin, end;
    friend bool operator==(const Stretch&, const Stretch&) = default;
};

struct RankProgram {
    Collective collective;
    std::string schedule;  // its name with arguments, "flat(ring, doubling)"
    std::string topology;  // "2x3"
    Rank rank = 0;
    Rank ranks = 1;
    Rank root = 0;
    // False if the contract of a collective that a file defines says nothing of this rank's buffer.
    bool has_input = true, has_output = true;
    bool all_have_buffers = true;   // an input, an output, or both, on every rank
    std::uint64_t fingerprint = 0;  // of all ranks' steps: equal if all ranks do the same

    std::vector<Rational> boundaries;  // ascending, distinct
    // The number of equal parts into which all ranks' regions cut x: every boundary of any rank's program
    // lies between two parts. The same on all ranks. 0: too many to be of use.
    std::uint64_t chunks = 1;
    static constexpr std::uint64_t most_chunks = std::uint64_t{1} << 20;
    std::int64_t buffers = 1;  // positions run from 0 to this
    BoundaryId input_origin = 0, output_origin = 0;
    bool uses_work = false;
    Protocol protocol = Protocol::bandwidth;
    std::vector<Rank> local_peers;  // the other ranks of this host, ascending, if memory is shared with them
    bool memory_is_shared = false;  // by the ranks of some host, perhaps another one
    // The most messages that any rank sends and receives, if memory is shared; so many or more, from
    // window_messages (dsl/planning/tiling.hpp) on. This number and memory_is_shared are the same on all
    // ranks.
    std::uint64_t most_messages = 0;
    // The stretches of this rank's input that local peers read, and those of its output that they write:
    // ascending, and no two of them meet.
    std::vector<Stretch> input_read, output_written;
    // By rank of this host, ascending, if memory is shared with them: the first positions of its input and of
    // its output that another one of them reads or writes. The same on all of them.
    static constexpr BoundaryId never_used = ~BoundaryId{0};
    using FirstUses = std::array<BoundaryId, 2>;
    std::vector<FirstUses> first_uses;
    // True if local peers read nothing of the output and write only what is for the caller. This rank's own
    // part of the output can then be in memory apart from theirs.
    bool output_is_apart = true;
    std::uint32_t signals = 0;  // the largest signal number of any rank of this host
    // True if any local peer reads or writes this rank's input, output or work.
    bool shares_input = false, shares_output = false, shares_work = false;
    std::vector<ScratchSlot> scratch;  // slot i is area first_scratch() + i
    std::uint32_t kept = 0;            // number of kept areas; the i-th is first_kept() + i
    std::vector<ShiftedArea> shifted;  // the i-th is area first_shifted() + i
    std::vector<ProgramBuffer> extras;
    std::vector<Computation> computations;
    std::vector<std::string> parameters;  // the parameters that get a value at each start
    bool computes_on_parts = false;       // as in Completion (dsl/proof/verify.hpp): only sums are allowed
    std::vector<Op> ops;
    std::vector<Origin> origins;

    // Returns true if the program computes, or takes arguments for computations.
    bool computes() const { return !computations.empty() || !extras.empty() || !parameters.empty(); }
    bool has_state() const {
        return std::any_of(extras.begin(), extras.end(), [](const ProgramBuffer& extra) {
            return extra.buffer.kind == ExtraBuffer::Kind::state;
        });
    }
    // Returns the extra buffer at these positions.
    const ProgramBuffer& extra_at(std::int64_t buffer) const { return extras[extra_index(buffer)]; }
    // Returns the upper bound of all positions.
    std::int64_t positions() const { return extras.empty() ? buffers : extras.back().buffer.begin + 1; }

    // True if no operation reads at a position other than the one it writes, and input and output have the
    // same positions.
    bool keeps_places() const { return buffers == 1 && shifted.empty(); }

    // True if data move between positions by whole pieces only. All pieces have equal chunks, so stretches of
    // chunks that data move between have equal lengths.
    bool moves_whole_pieces() const {
        const bool has_pieces = contract_of(collective).is_by_rank();
        return std::all_of(shifted.begin(), shifted.end(), [&](const ShiftedArea& area) {
            const Rational by = boundaries[area.at] - boundaries[area.from];
            return has_pieces && (by * Rational(ranks)).den() == 1;
        });
    }

    // Return the parts of x that this rank's send buffer and receive buffer hold.
    Share input() const { return has_input ? contract_of(collective).input.of(rank == root) : Share::none; }
    Share output() const {
        return has_output ? contract_of(collective).output.of(rank == root) : Share::none;
    }

    // Returns local peer i's input, output or work.
    static AreaId local_peer_area(std::size_t i, AreaId area) {
        return static_cast<AreaId>(areas_of_a_rank * (1 + i)) + area;
    }
    AreaId first_scratch() const { return local_peer_area(local_peers.size(), 0); }
    AreaId first_kept() const { return first_scratch() + static_cast<AreaId>(scratch.size()); }
    AreaId first_shifted() const { return first_kept() + kept; }
    std::size_t areas() const { return first_shifted() + shifted.size(); }
    // Returns true for the area of a state, or of a buffer that the caller gives besides x.
    bool keeps(AreaId area) const { return area >= first_kept() && area < first_shifted(); }
    // Returns the area in whose memory an area lies.
    AreaId memory_of(AreaId area) const {
        return area < first_shifted() ? area : shifted[area - first_shifted()].of;
    }
};

}  // namespace hocket::dsl
