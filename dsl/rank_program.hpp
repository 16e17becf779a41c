// What one rank does: the end of the language's pipeline (text -> ast -> step graph -> verified ->
// projected) and the input of whatever runs it (runtime/jit compiles it, runtime/engine executes it).
//
// A program works on the collective's buffer x, of `count` elements, in *areas* of memory:
//
//   area 0  input    the caller's send buffer, never written
//   area 1  output   the caller's recv buffer
//   area 2  work     private, as large as x: partial results that the output has no room for
//   area 3+ scratch  one slot a message that is combined or staged: messages land there
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

using AreaId = std::uint32_t;
using BoundaryId = std::uint32_t;
using OpId = std::uint32_t;

inline constexpr AreaId input_area = 0, output_area = 1, work_area = 2, first_scratch_area = 3;

struct Op {
    enum class Kind : std::uint8_t {
        send,     // x[begin, end) of `area` to `peer`
        receive,  // from `peer` into x[begin, end) of `area`
        combine,  // area[i] = operands[0][i] op operands[1][i] op ..., left to right; 2 or more operands;
                  // one of them may be `area` itself
        copy,     // area[i] = operands[0][i]
    };
    Kind kind;
    BoundaryId begin, end;
    AreaId area;
    std::vector<AreaId> operands = {};  // combine, copy
    Rank peer = -1;                     // send, receive
    std::uint32_t message = 0;    // send, receive: running number of the messages from sender to receiver
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
    std::vector<ScratchSlot> scratch;  // slot i is area first_scratch_area + i
    std::vector<Op> ops;
    std::vector<Origin> origins;
};

}  // namespace hocket::dsl
