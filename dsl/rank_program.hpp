// What one rank does: the end of the language's pipeline (text -> ast -> step graph -> verified ->
// projected) and the input of whatever runs it (runtime/jit compiles it, runtime/engine executes it).
//
// A program works on the collective's buffer x, of `count` elements, in *areas* of memory:
//
//   area 0  input    the caller's send buffer, never written
//   area 1  output   the caller's recv buffer
//   area 2  work     private, as large as x: partial results that the output has no room for
//   then    three for each of the rank's neighbours (ranks of the same host): its input, output and work,
//           read and written where they are
//   then    scratch  one slot a message that is combined or staged: messages land there; private
//
// Positions are given as *boundaries*: exact fractions of x, shared by all operations. For a count,
// boundary b is at element floor(b * count). All areas are addressed by position in x: the runtime
// keeps for each area a virtual base such that
//
//   address(area, boundary) = base[area] + offset(boundary) * element_size
//
// Input and output of reduce_scatter and all_gather hold only a part of x; their virtual base is the
// caller's pointer less the offset of boundary `input_origin` or `output_origin`. A scratch slot's
// virtual base is its memory less the offset of the slot's own begin.
//
// Neighbours' memory is ordered by signals: each rank counts its own, and `await` lasts until a neighbour's
// count is reached. The first signal says that the rank has entered, so that its areas may be used. Done one
// after another in program order, the operations of neighbours never wait for each other in a circle.
//
// Operations are in program order. An operation may start when those it waits for (always earlier ones)
// are complete: dependencies come from overlapping regions alone. Operations whose region is empty for
// a count (offset(begin) == offset(end)) are complete from the start, on every rank alike: an empty
// message is neither sent nor expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/rational.hpp"

namespace hocket::dsl {

using Rank = std::int32_t;

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };
std::string_view name_of(Collective collective);

// What counts most where ranks share memory: for large buffers, that every byte is moved as few times as
// possible; for small ones, that ranks wait for each other as few times as possible.
// Where waits count, the runtime shows neighbours a copy of the caller's input: `input` and `output` are then
// never the same memory.
enum class Economy : std::uint8_t { bytes, waits };

using AreaId = std::uint32_t;
using BoundaryId = std::uint32_t;
using OpId = std::uint32_t;

inline constexpr AreaId input_area = 0, output_area = 1, work_area = 2, areas_of_a_rank = 3;

struct Op {
    enum class Kind : std::uint8_t {
        send,     // x[begin, end) of `area` to `peer`
        receive,  // from `peer` into x[begin, end) of `area`
        combine,  // area[i] = operands[0][i] op operands[1][i] op ..., left to right; 2 or more operands;
                  // one of them may be `area` itself
        copy,     // area[i] = operands[0][i]; where both are one place there is nothing to do
        signal,   // tells the neighbours: signal number `message`, counted from 1, has been reached
        await,    // until the neighbour `peer` has reached its signal `message`
    };
    Kind kind;
    BoundaryId begin, end;
    AreaId area;
    std::vector<AreaId> operands = {};  // combine, copy
    std::vector<AreaId> also = {};      // combine, copy: further areas that get the same result
    Rank peer = -1;                     // send, receive, await
    std::uint32_t message = 0;    // send, receive: running number of the messages from sender to receiver
    bool guards_buffers = false;  // await: only keeps the caller's buffers lent until `peer` is done with
                                  // them: needless where neighbours were shown copies of them
    std::uint32_t origin = 0;     // index into origins: where in the source this comes from
    std::uint32_t phase = 0;      // running number of the `each` it belongs to (for people)
    std::uint32_t waits_for = 0;  // number of earlier operations that list this one as successor
    std::vector<OpId> successors = {};
};

// A place in the source, for errors, traces and explain.
struct Origin {
    std::string location;  // "schedules/ring.sched:5"
    std::string text;      // the transfer as written: "x[r - s] : r +> r + 1"
    std::string context;   // "reduce_scatter x over levels[0] (blueconnect.sched:3)"; may be empty
};

struct ScratchSlot {
    BoundaryId begin, end;
};

// From one boundary to another.
struct Stretch {
    BoundaryId begin, end;
};

struct RankProgram {
    Collective collective;
    std::string schedule;  // its name with arguments, "flat(ring, doubling)"
    std::string topology;  // "2x3"
    Rank rank = 0;
    Rank ranks = 1;
    Rank root = 0;
    std::uint64_t fingerprint = 0;  // of all ranks' steps: equal where all do the same

    std::vector<Rational> boundaries;  // ascending, distinct
    BoundaryId input_origin = 0, output_origin = 0;
    bool uses_work = false;
    Economy economy = Economy::bytes;
    std::vector<Rank> neighbours;   // ascending: the other ranks of this host, if memory is shared with them
    bool memory_is_shared = false;  // by the ranks of any host
    // That any rank sends and receives, where memory is shared. Both are the same on all ranks.
    std::uint64_t most_messages = 0;
    // What neighbours read of this rank's input, and write to its output: ascending, apart.
    std::vector<Stretch> input_read, output_written;
    // Whether what neighbours write to the output is only for the caller, and they read nothing there: then
    // this rank's own part of the output can be apart from theirs.
    bool output_is_apart = true;
    // Whether any neighbour reads or writes this rank's input, output or work.
    std::uint32_t signals = 0;  // the most that any rank of this host gives
    bool shares_input = false, shares_output = false, shares_work = false;
    std::vector<ScratchSlot> scratch;  // slot i is area first_scratch() + i
    std::vector<Op> ops;
    std::vector<Origin> origins;

    // Neighbour i's input, output or work.
    static AreaId neighbour_area(std::size_t i, AreaId area) {
        return static_cast<AreaId>(areas_of_a_rank * (1 + i)) + area;
    }
    AreaId first_scratch() const { return neighbour_area(neighbours.size(), 0); }
    std::size_t areas() const { return first_scratch() + scratch.size(); }
};

}  // namespace hocket::dsl
