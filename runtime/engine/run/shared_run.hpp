// One start of a plan whose transfers are all loads and stores, among the ranks of one host, without
// messages.
//
// Local peers use the callers' buffers directly if all of them lie in the window. Otherwise each rank copies
// its own buffers through the window, a tile at a time, with two tiles under way. Small buffers are always
// copied: copying a few kilobytes costs less than waiting until all local peers are done with the original.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/run/single_copy.hpp"
#include "runtime/engine/run/tile_run.hpp"

namespace hocket::engine {

class SharedRun final : public Run {
  public:
    explicit SharedRun(const Plan& plan);
    ~SharedRun() override;

    // Returns true if all ranks are local peers. (It is not enough that this rank sends no messages: its
    // local peers must use the same kind of run.)
    static bool suits(const dsl::RankProgram& program);

    void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) override;
    // Waits only a moment for each local peer.
    bool advance(transport::Fabric* fabric, std::uint64_t& budget) override;
    void complete(dsl::OpId) override {}  // no messages
    bool let_go(Clock::time_point until) override;
    std::uint64_t memory_bytes() const override { return memory_bytes_; }

    const Binding& binding() const override { return *binding_; }
    bool is_complete(dsl::OpId op) const override { return op < next_op(); }
    std::optional<dsl::OpId> first_incomplete() const override;
    std::optional<dsl::Rank> awaited_at_start() const override;
    std::optional<dsl::Rank> awaited_helper() const override;

  private:
    enum class Stage : std::uint8_t { closed, rendezvous, running };

    dsl::OpId next_op() const { return stage_ == Stage::running ? oldest().next_op() : 0; }
    bool enter();
    bool meet();
    void start_tiles();
    void begin_tiles();
    template <typename Call>
    bool for_tile(dsl::Share held, std::byte* buffer, std::uint64_t tile, Call call) const;
    bool input_has_come(std::uint64_t tile) const;
    bool has_room(std::uint64_t tile) const;
    void finish_output(std::uint64_t tile) const;
    bool run_tiles();
    bool run_each_tile(bool patient);
    void show_buffers();
    void show_private_buffers();
    std::uint64_t bytes_of(dsl::Share share) const;
    bool buffers_are_apart() const;  // input and output
    void need_memory(std::uint64_t bytes);
    Tiling divided() const;
    bool has_more_tiles() const { return tiles_begun_ < start_.tiling.tiles(); }
    const TileRun& oldest() const;

    SharedStart start_{.disagreement = disagreement_};
    std::array<TileRun, LocalPeers::tiles_in_flight> tiles_;
    std::uint64_t tiles_begun_ = 0;
    std::shared_ptr<const Binding> binding_;  // of the first tile, or of the whole
    device::Staging* staging_ = nullptr;      // as in Start
    Stage stage_ = Stage::closed;             // until it is done
    std::uint64_t most_elements_ = 0;         // of x in a tile
    std::size_t met_ = 0;                     // members met so far, in order (rendezvous)
    bool all_in_windows_ = false;
    bool is_lent_ = false;  // peers may use the private buffers, if all lend theirs
    SingleCopyStarts single_copy_;
    std::uint64_t memory_bytes_ = 0;
};

}  // namespace hocket::engine
