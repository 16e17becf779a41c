// What one rank does: the end of the language's pipeline (text -> ast -> step graph -> verified ->
// projected) and the input of whatever runs it (runtime/compute/jit compiles it, runtime/engine executes it).
//
// A program works on the collective's buffer x, of `count` elements, in *areas* of memory:
//
//   area 0  input    the caller's send buffer, never written
//   area 1  output   the caller's recv buffer
//   area 2  work     private, as large as x: partial results that the output has no room for
//   then    three for each of the rank's local peers (ranks of the same host): its input, output and work,
//           read and written where they are
//   then    scratch  one slot a message that is combined or staged: messages land there; private
//   then    kept     states, which live as long as the plan, and buffers that the caller gives beside x
//   then    shifted  one of the above, read at another position than the operation writes to
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
// Signals order the use of local peers' memory: each rank counts its own, and `await` lasts until a
// local peer's count is reached. The first signal says that the rank has entered, so that its areas may be
// used. If the operations run one after another in program order, local peers never wait for each other in a
// circle.
//
// What a rank sends to another in one phase is one message. Its parts may lie in several places, and in
// different places on the two sides: what travels is their elements, one part after the other.
//
// Operations are in program order. An operation may start when those it waits for (always earlier ones)
// are complete: dependencies come from overlapping regions alone. Operations whose region is empty for
// a count (offset(begin) == offset(end), of all parts) are complete from the start, on every rank alike: an
// empty message is neither sent nor expected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/rational.hpp"
#include "dsl/graph/computation.hpp"
#include "dsl/graph/region.hpp"

namespace hocket::dsl {

// What counts most between ranks that share memory. For large buffers: every byte is moved as few times as
// possible. For small ones: ranks wait for each other as few times as possible. In that case the runtime
// shows local peers a copy of the caller's input, so `input` and `output` are never the same memory.
enum class Protocol : std::uint8_t { bandwidth, latency };

using AreaId = std::uint32_t;
using BoundaryId = std::uint32_t;
using OpId = std::uint32_t;

inline constexpr AreaId input_area = 0, output_area = 1, work_area = 2, areas_of_a_rank = 3;

// x[begin, end) of an area.
struct MessagePart {
    BoundaryId begin, end;
    AreaId area;
};

struct Op {
    enum class Kind : std::uint8_t {
        send,     // x[begin, end) of `area`, then the further parts, to `peer`
        receive,  // from `peer` into x[begin, end) of `area`, then into the further parts
        combine,  // area[i] = operands[0][i] op operands[1][i] op ..., left to right; 2 or more operands;
                  // one of them may be `area` itself
        copy,     // area[i] = operands[0][i]; nothing to do if both are one place
        signal,   // tells the local peers: signal number `message`, counted from 1, has been reached
        await,    // until the local peer `peer` has reached its signal `message`
        compute,  // x[begin, end) of `area`, or the rank's piece of a selection or of sums: `computation`
    };
    Kind kind;
    BoundaryId begin, end;
    AreaId area;
    std::vector<AreaId> operands = {};      // combine, copy
    std::vector<AreaId> also = {};          // combine, copy: further areas that get the same result
    std::vector<MessagePart> further = {};  // send, receive: the parts after the first, in order
    // compute: index into computations, and what it reads: a part for each of its elements, then the pieces
    // that the rank holds of each of its sparse terms, and of each of its sums.
    std::uint32_t computation = 0;
    // combine: if not none, the computation that every result goes through before it is written. It reads
    // nothing but that result, so one pass does both; a result has the same bits as if two did.
    std::uint32_t epilogue = no_epilogue;
    static constexpr std::uint32_t no_epilogue = ~std::uint32_t{0};
    std::vector<std::vector<MessagePart>> reads = {};
    Rank peer = -1;               // send, receive, await
    std::uint32_t message = 0;    // send, receive: running number of the messages from sender to receiver
    bool completes = false;       // combine: the result holds all ranks' contributions, and is final
    bool guards_buffers = false;  // await: only keeps the caller's buffers lent until `peer` is done with
                                  // them: needless where local peers were shown copies of them
    std::uint32_t origin = 0;     // index into origins: where in the source this comes from
    std::uint32_t phase = 0;      // running number of the `each` it belongs to (for people)
    std::uint32_t waits_for = 0;  // number of earlier operations that list this one as successor
    std::vector<OpId> successors = {};

    std::size_t parts() const { return 1 + further.size(); }
    MessagePart part(std::size_t i) const { return i == 0 ? MessagePart{begin, end, area} : further[i - 1]; }
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

// The area `of`, placed so that what lies there at boundary `from` is read at boundary `at`.
struct ShiftedArea {
    AreaId of;
    BoundaryId from, at;
    friend bool operator==(const ShiftedArea&, const ShiftedArea&) = default;
};

// A buffer beside x, as one rank's program has it.
struct ProgramBuffer {
    ExtraBuffer buffer;
    std::vector<Interval> regions;               // by rank, in x: ExtraBuffer::regions
    std::int32_t area = -1;                      // among the kept ones, or -1
    std::vector<std::vector<Holding>> holdings;  // of a state, by rank: Completion::holdings
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
    std::uint64_t fingerprint = 0;  // of all ranks' steps: equal if all ranks do the same

    std::vector<Rational> boundaries;  // ascending, distinct
    // Into so many equal parts x is cut where any rank's regions begin or end: each boundary of every rank's
    // program lies between two of them. The same on all ranks. 0: too many to be of use.
    std::uint64_t chunks = 1;
    static constexpr std::uint64_t most_chunks = std::uint64_t{1} << 20;
    std::int64_t buffers = 1;  // positions are from 0 to this
    BoundaryId input_origin = 0, output_origin = 0;
    bool uses_work = false;
    Protocol protocol = Protocol::bandwidth;
    std::vector<Rank> local_peers;  // ascending: the other ranks of this host, if memory is shared with them
    bool memory_is_shared = false;  // by ranks of some host, perhaps another
    // The most messages that any rank sends and receives, where memory is shared. This and memory_is_shared
    // are the same on all ranks.
    std::uint64_t most_messages = 0;
    // What local peers read of this rank's input, and what they write to its output: ascending, and no two
    // stretches meet.
    std::vector<Stretch> input_read, output_written;
    // Whether what local peers write to the output is for the caller only, and they read nothing there: then
    // this rank's own part of the output can be apart from theirs.
    bool output_is_apart = true;
    std::uint32_t signals = 0;  // the largest number that any rank of this host gives
    // Whether any local peer reads or writes this rank's input, output or work.
    bool shares_input = false, shares_output = false, shares_work = false;
    std::vector<ScratchSlot> scratch;  // slot i is area first_scratch() + i
    std::uint32_t kept = 0;            // number of kept areas; the i-th is first_kept() + i
    std::vector<ShiftedArea> shifted;  // the i-th is area first_shifted() + i
    std::vector<ProgramBuffer> extras;
    std::vector<Computation> computations;
    std::vector<std::string> parameters;  // that are given at each start
    bool computes_on_parts = false;       // as Completion (dsl/proof/verify.hpp): only sums will do
    std::vector<Op> ops;
    std::vector<Origin> origins;

    // It computes, or is given something for that.
    bool computes() const { return !computations.empty() || !extras.empty() || !parameters.empty(); }
    bool has_state() const {
        return std::any_of(extras.begin(), extras.end(), [](const ProgramBuffer& extra) {
            return extra.buffer.kind == ExtraBuffer::Kind::state;
        });
    }
    // The extra buffer that has these positions.
    const ProgramBuffer& extra_at(std::int64_t buffer) const {
        return extras[static_cast<std::size_t>((buffer - first_extra) / extra_stride)];
    }
    // Positions are below this.
    std::int64_t positions() const { return extras.empty() ? buffers : extras.back().buffer.begin + 1; }

    // True if no operation reads at another position than it writes to, and input and output have the same
    // positions.
    bool keeps_places() const { return buffers == 1 && shifted.empty(); }

    // The parts of x that this rank's send buffer and receive buffer hold.
    Share input() const { return contract_of(collective).input.of(rank == root); }
    Share output() const { return contract_of(collective).output.of(rank == root); }

    // Local peer i's input, output or work.
    static AreaId local_peer_area(std::size_t i, AreaId area) {
        return static_cast<AreaId>(areas_of_a_rank * (1 + i)) + area;
    }
    AreaId first_scratch() const { return local_peer_area(local_peers.size(), 0); }
    AreaId first_kept() const { return first_scratch() + static_cast<AreaId>(scratch.size()); }
    AreaId first_shifted() const { return first_kept() + kept; }
    std::size_t areas() const { return first_shifted() + shifted.size(); }
    // The area whose memory an area is.
    AreaId memory_of(AreaId area) const {
        return area < first_shifted() ? area : shifted[area - first_shifted()].of;
    }
};

}  // namespace hocket::dsl
