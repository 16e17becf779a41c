// One pass of a program over a tile of a start, among the ranks of one host. A tile is the same stretch of
// each chunk of x (engine/start/tiling.hpp). Operations run in program order; if a local peer has not come
// yet, the pass stops and continues later.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/engine/plan/hand_over_path.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/peer_use.hpp"
#include "runtime/engine/run/run.hpp"

namespace hocket::engine {

// The facts that a tile run needs about an operation. The struct must be small: there are many awaits, and
// ranks that share a core find their caches empty at every step.
struct TileStep {
    dsl::Op::Kind kind;
    bool guards_buffers, hands_over;  // hands_over: writes to local peers
    bool crosses;                     // uses a local peer's input or output
    bool crosses_straight;            // crosses_straight()
    dsl::OpId beside;                 // work_beside()
    bool uses_input, uses_output;     // of this rank
    dsl::Rank peer;
    std::uint32_t signal;
    dsl::BoundaryId begin, end;
    std::uint32_t first_chunk, last_chunk;  // of x, half-open
    std::uint16_t operands, destinations;
};

// The state common to all tiles of a start.
struct SharedStart {
    std::optional<Disagreement>& disagreement;  // of the run
    Plan* plan = nullptr;
    LocalPeers* local_peers = nullptr;
    std::uint64_t count = 0, parts = 1, element = 1;  // x has count * parts elements; element: bytes of one
    Tiling tiling = {};
    std::byte *send = nullptr, *recv = nullptr;
    std::byte* memory = nullptr;  // in the window: work and scratch
    std::uint64_t sequence = 0;   // Execution::sequence()
    std::uint32_t checksum = 0;
    bool is_small = false;  // from the start, all ranks publish copies of the inputs
    // The parts of the callers' buffers that local peers use are copied: the input to this rank's slice of
    // the window, the output from there.
    bool copies_through_window = false;
    // Local peers use the callers' private buffers where they are, through the kernel (peer_memory.hpp).
    bool copies_once = false;
    // Then, too, the copies of work_beside() may be made at the same time: no byte is both input and output.
    bool has_work_beside = false;
    bool must_copy_input = false;     // always: it is multiplied, or overlaps the output although it must not
    double factor = 1;                // for the input, if the plan multiplies
    bool has_met = false;             // the rendezvous gave the first signal
    std::vector<bool> contacts = {};  // by member: true if met in this start

    const dsl::RankProgram& program() const { return plan->program(); }
    // Returns true if tiles of this start have copies in the other rank's memory (LocalPeers::is_swapped).
    bool swaps_copies() const { return copies_through_window && local_peers->swaps_copies(); }
    // Returns the number of a tile's signal among those of all tiles that have the same slot. Each tile has
    // the program's signals and one more (ended()).
    std::uint64_t value_of(std::uint64_t tile, std::uint32_t signal) const;
    std::uint32_t ended() const { return program().signals + 1; }
    bool reads_send() const { return plan->input() != dsl::Share::none; }
    // Checks a local peer's line at the first look. Returns false if the local peer has started something
    // else.
    bool contact(Member member, dsl::OpId op);
    // Call for a local peer that has not come: it may have started something else that needed no local peer.
    void look_for_absent(Member member, dsl::OpId op);
};

class TileRun {
  public:
    TileRun(const Plan& plan, SharedStart& start);

    // index: of the tile. Tiles alternate between two sets of signals and copies, so two can be under way.
    void begin(std::uint64_t index);
    void skip_entry() { ++next_; }  // the program's first signal has been given

    // Advances as far as local peers allow; `patient`: waits a moment for each. Returns true if anything
    // moved.
    bool advance(bool patient);
    bool is_active() const { return active_; }
    std::uint64_t index() const { return index_; }
    dsl::OpId next_op() const { return next_; }
    // The member that has a part of the next operation, a copy whose other parts are done.
    std::optional<Member> awaited_helper() const {
        return crossing_.is_open ? start_.local_peers->awaited_helper() : std::nullopt;
    }
    const std::shared_ptr<const Binding>& binding() const { return binding_; }

  private:
    // The chunks of x that an area of this rank holds, half-open.
    struct Chunks {
        std::uint64_t first, last;
    };

    template <typename Call>
    void time(Call call);
    void note_time();
    bool run_one(const TileStep& step, bool patient);
    void work(const TileStep& step);
    bool works_in_buffers(const TileStep& step) const;
    static bool fits_caches(const TileStep& step, std::uint64_t bytes);
    bool hands_something_over() const;
    void choose_path();
    bool work_across(const dsl::Op& op);
    bool copy_across(const dsl::Op& op, std::uint64_t begin, std::uint64_t bytes);
    template <typename Own>
    bool cross(const LocalPeers::PrivateCopy& copy, bool has_own, Own make_own);
    dsl::OpId beside(dsl::OpId op) const { return start_.has_work_beside ? steps_[op].beside : no_op; }
    void make_beside();
    bool work_across_in_block(const dsl::Op& op, std::uint64_t at, std::uint64_t bytes);
    std::optional<Member> lender_of(dsl::AreaId area) const;
    void work_between(const TileStep& step, std::uint64_t begin, std::uint64_t end);
    void work_in_blocks(const dsl::Op& op, std::uint64_t begin, std::uint64_t end);
    std::byte* combine_at_hand(const dsl::Op& op, std::uint64_t at, std::uint64_t bytes, std::byte* block);
    bool awaits(const TileStep& step, bool patient);
    void finish();
    void place_own(std::uint64_t chunk);
    std::byte* in_buffer(dsl::AreaId area, std::uint64_t chunk) const;
    void place_shifted_areas();
    void place_local_peer(Member member);
    void copy_through_window(dsl::AreaId area);
    void copy_stretch(dsl::AreaId area, std::uint64_t in_tile, std::uint64_t in_x, std::uint64_t bytes);
    bool needs_copy(dsl::AreaId area) const;
    bool is_copied(dsl::AreaId area) const { return is_copied_[area]; }
    // Returns true if this rank works on the caller's buffer although the area is copied: only local peers
    // use the copy.
    bool works_beside_copy(dsl::AreaId area) const {
        const bool must_be_copied = area == dsl::input_area && start_.must_copy_input;
        return !start_.is_small && can_work_beside_ && !must_be_copied;
    }
    // Returns true if this rank works on the caller's buffer. The stretches of a tile's chunks are not
    // contiguous there.
    bool is_in_buffer(dsl::AreaId area) const { return !is_copied(area) || works_beside_copy(area); }
    bool holds_own_part_only(dsl::AreaId area) const { return held_[area] == dsl::Share::own; }
    Chunks held_chunks(dsl::AreaId area) const;
    std::byte* copy_in_window(Member member, dsl::AreaId area) const;

    SharedStart& start_;
    // True if this rank itself can work on the caller's buffers, so that only the parts that local peers
    // touch are copied. That holds if no rank reads the others' part of the output, and data move between
    // positions by whole pieces; but not for an input that must be copied (SharedStart::must_copy_input).
    bool can_work_beside_;
    dsl::Share held_[2];           // part of x in the rank's input and output
    std::vector<TileStep> steps_;  // by operation
    // By shifted area: the number of chunks, modulo 2^64, from the chunk of an operation to the one it reads.
    std::vector<std::uint64_t> chunks_further_;

    std::shared_ptr<const Binding> binding_;
    std::uint64_t index_ = 0;  // of the tile
    Tile tile_;
    // For input and output: the position at which all of x begins in it; the virtual base of x in the
    // caller's buffer; and true if it is copied through the window.
    std::uint64_t begins_[2] = {};
    std::byte* buffers_[2] = {};
    bool is_copied_[2] = {};
    bool is_swapped_ = false;  // LocalPeers::is_swapped()
    std::uint64_t placed_chunk_ = 0;
    dsl::OpId next_ = 0;
    bool active_ = false;
    // This rank uses buffers of local peers in this program, and local peers use its own.
    bool goes_both_ways_;
    // The part of the next operation that is done, if it is a copy between this rank and lenders.
    struct Crossing {
        std::size_t lenders = 0;  // that have their copy
        bool has_own = false;     // this rank has its own, and the copy beside it is made
        bool is_open = false;     // LocalPeers::open_joint() has begun the next lender's
    } crossing_;
    HandOverPath::Choice choice_{kernels::Path::cache};  // of data that are handed over
    HandOverPath* timed_ = nullptr;                      // null: this tile is not timed
    std::chrono::nanoseconds busy_{};                    // if timed: the processor time of this tile's work
    std::vector<std::byte*> areas_;
    std::vector<bool> placed_;                  // by member: its areas are placed
    std::vector<std::uint64_t> block_offsets_;  // like the binding's, except for an operation's current block
    std::vector<std::byte*> block_areas_;
    std::vector<std::byte> blocks_;  // of local peers' private operands, and a result
};

}  // namespace hocket::engine
