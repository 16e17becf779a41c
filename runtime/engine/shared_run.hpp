// One start of a plan whose transfers are all loads and stores: the ranks of one host, no messages.
//
// Neighbours use the callers' buffers where they are, if all of them lie in the window. Else each rank copies
// its own through the window, a tile at a time, two tiles on their way. Small buffers are always copied: a
// copy of a few kilobytes costs less than to wait until all neighbours are done with the original.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "runtime/engine/neighbourhood.hpp"
#include "runtime/engine/plan.hpp"
#include "runtime/engine/tile_run.hpp"

namespace hocket::engine {

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
    std::uint64_t memory_bytes() const { return memory_bytes_; }
    bool is_done() const { return stage_ == Stage::done; }

    dsl::OpId next_op() const { return stage_ == Stage::running ? oldest().next_op() : 0; }
    // Before the first operation: the rank that has not started this yet, or not ended what used the lane
    // before.
    std::optional<dsl::Rank> awaited_at_start() const;
    const std::shared_ptr<const Binding>& binding() const { return binding_; }
    // A neighbour has started something else.
    const std::optional<Disagreement>& disagreement() const { return start_.disagreement; }
    ~SharedRun();

  private:
    enum class Stage : std::uint8_t { closed, meeting, running, done };

    bool enter();
    bool meet();
    void start_tiles();
    void begin_tiles();
    bool run_tiles();
    bool run_each_tile(bool patient);
    void show_buffers();
    void need_memory(std::uint64_t bytes);
    std::uint64_t tile_elements() const;
    std::uint64_t tiles() const { return (start_.count + start_.tile_elements - 1) / start_.tile_elements; }
    const TileRun& oldest() const;

    SharedStart start_;
    std::array<TileRun, Neighbourhood::tiles_in_flight> tiles_;
    std::uint64_t tiles_begun_ = 0;
    std::shared_ptr<const Binding> binding_;  // of the first tile, or of all at once
    Stage stage_ = Stage::done;
    std::size_t met_ = 0;  // members that have been met, in order (meeting)
    bool all_in_windows_ = false;
    std::uint64_t memory_bytes_ = 0;
};

}  // namespace hocket::engine
