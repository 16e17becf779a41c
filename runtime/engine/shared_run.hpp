// One start of a plan whose transfers are all loads and stores: the ranks of one host, no messages.
// Operations run in program order; where a neighbour is not there yet, the run stops and goes on later.
//
// Neighbours use the callers' buffers where they are, if all of them lie in the window. Else each rank copies
// its own through the window, a tile at a time. Small buffers are always copied: a copy of a few kilobytes
// costs less than to wait until all neighbours are done with the original.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/engine/neighbourhood.hpp"
#include "runtime/engine/plan.hpp"

namespace hocket::engine {

struct Disagreement {
    dsl::OpId op;
    dsl::Rank peer;
};

class SharedRun {
  public:
    explicit SharedRun(const Plan& plan);
    // All ranks are neighbours. (That this rank sends no messages is not enough: its neighbours must go the
    // same way.)
    static bool suits(const dsl::RankProgram& program);

    // count: as given to the collective's function. The buffers stay the run's until it is done.
    void begin(Plan& plan, Neighbourhood& neighbourhood, std::uint64_t count, const void* send, void* recv,
               std::uint64_t number, std::uint32_t checksum);

    // Goes on as far as neighbours allow, waiting for each only a moment; true if anything moved.
    bool advance();
    bool is_done() const { return stage_ == Stage::done; }

    dsl::OpId next_op() const { return next_; }
    // Before the first operation: the rank that has not started this yet, or not ended what used the lane
    // before.
    std::optional<dsl::Rank> awaited_at_start() const;
    const std::shared_ptr<const Binding>& binding() const { return binding_; }
    // A neighbour has started something else.
    const std::optional<Disagreement>& disagreement() const { return disagreement_; }
    ~SharedRun();

  private:
    enum class Stage : std::uint8_t { closed, meeting, running, done };

    bool enter();
    bool meet();
    void start_tile();
    bool finish_tile();
    bool run();
    bool run_one(const dsl::Op& op);
    bool awaits(const dsl::Op& op);
    bool contact(Member member);
    void show_buffers();
    void place_own();
    void place_neighbour(Member member);
    void move_copies(dsl::AreaId area);
    bool is_copied(dsl::AreaId area) const;
    bool works_beside_copies() const;
    bool reads_send() const;
    std::uint64_t value_of(std::uint32_t signal) const;
    void need_memory(std::uint64_t bytes);
    std::uint64_t bytes_of(const dsl::Op& op) const {
        return binding_->byte_offsets[op.end] - binding_->byte_offsets[op.begin];
    }

    Plan* plan_ = nullptr;
    Neighbourhood* neighbourhood_ = nullptr;
    std::shared_ptr<const Binding> binding_;  // of the tile
    std::byte *send_ = nullptr, *recv_ = nullptr;
    std::uint64_t number_ = 0;
    std::uint32_t checksum_ = 0;
    bool is_small_, copies_ = false;
    Stage stage_ = Stage::done;
    dsl::OpId next_ = 0;

    // x is `parts_` pieces of count_ elements (one for each rank, or one in all); a tile is the same stretch
    // of each.
    std::uint64_t parts_, element_, count_ = 0, tile_elements_ = 0, tile_begin_ = 0, tile_ = 0;

    std::vector<std::byte*> areas_;
    std::vector<bool> contacts_;  // by member: has been met in this start
    std::vector<bool> placed_;    // by member: its areas are known in this tile
    std::size_t met_ = 0;         // members that have been met, in order (meeting)
    bool all_in_windows_ = false;
    std::byte* memory_ = nullptr;  // in the window: work and scratch
    std::uint64_t memory_bytes_ = 0;
    std::optional<Disagreement> disagreement_;
};

}  // namespace hocket::engine
