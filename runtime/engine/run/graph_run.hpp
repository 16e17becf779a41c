// Runs operations in the order of their dependencies: messages, and also loads and stores in local peers'
// memory if the program has both, or if all buffers are on devices. On the host a copy has ended once it has
// run. On a device it is posted, and ends later (device_executor.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/run/direct_start.hpp"
#include "runtime/engine/run/pair_pieces.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/input_copy.hpp"
#include "runtime/engine/start/tiling.hpp"

namespace hocket::engine {

class Execution;

// A message of an execution; transport::Message::user points to it.
struct Transfer {
    transport::Message message;
    Execution* execution = nullptr;
    dsl::OpId op = 0;
    std::size_t first_segment = 0;  // index into the run's segments
};

class GraphRun final : public Run {
  public:
    GraphRun(const Plan& plan, Execution& execution);
    ~GraphRun() override;

    void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) override;
    bool advance(transport::Fabric* fabric, std::uint64_t& budget) override;
    // Completes the operation, after which its successors may be ready.
    void complete(dsl::OpId op) override;
    void release() override;
    std::uint64_t memory_bytes() const override { return memory_bytes_; }
    std::size_t messages() const override { return transfers_.size(); }

    const Binding& binding() const override { return *binding_; }
    bool is_complete(dsl::OpId op) const override { return waits_[op] == Binding::complete; }
    std::optional<dsl::OpId> first_incomplete() const override;

  private:
    // Operations that may start, in the order in which they became ready. Each operation enters one queue,
    // once.
    struct Queue {
        std::vector<dsl::OpId> ops;
        std::size_t head = 0;

        bool empty() const { return head == ops.size(); }
        void clear() { ops.clear(), head = 0; }
    };

    void enqueue(dsl::OpId op);
    void release_successor(dsl::OpId op);
    void need_memory(std::uint64_t bytes);
    void free_memory();
    void place_areas();
    void make_copies();
    bool works_beside_copy(dsl::AreaId area) const;
    std::uint64_t move_copies(dsl::AreaId area);
    ReadBy copy_is_read_by() const { return local_peers_ ? ReadBy::local_peers : ReadBy::self; }
    bool enter(std::uint64_t& budget);
    std::uint64_t show_buffers();
    void show_areas(LocalPeers::Line& line);
    bool look_for_local_peers();
    bool contact(const dsl::Op& op, dsl::OpId id);
    std::uint64_t bytes_of_buffer(dsl::AreaId area) const;
    std::uint64_t bytes_spanned(dsl::AreaId area) const;
    bool input_has_come() const;
    bool post(Queue& queue, transport::Fabric* fabric);
    bool post_one(const dsl::Op& op, dsl::OpId id, transport::Fabric& fabric);
    bool run_or_post(const dsl::Op& op, dsl::OpId id, std::uint64_t& budget);
    bool post_on_device(dsl::OpId id);
    bool end_on_device();
    bool follows_on_stream(dsl::OpId earlier, dsl::OpId later) const;
    void run_local(const dsl::Op& op, dsl::OpId id);
    void run_by_chunks(const dsl::Op& op, dsl::OpId id);
    std::size_t most_segments(const dsl::MessagePart& part) const;
    void place_kept();
    void compute(dsl::OpId id);
    std::span<const transport::Segment> segments_of(const dsl::Op& op, const Transfer& transfer);
    std::uint64_t shift_of(dsl::AreaId area, dsl::BoundaryId boundary) const {
        return pieces_ ? pieces_->shift_of(area, boundary) : 0;
    }

    const Plan* plan_;
    std::uint64_t sequence_ = 0;
    std::uint32_t checksum_ = 0;
    Tile tile_;
    std::shared_ptr<const Binding> binding_;
    std::optional<PairPieces> pieces_;  // if the start is by pair
    std::vector<std::uint32_t> waits_;
    Queue receives_, sends_, local_;
    std::vector<dsl::OpId> awaits_;  // they may end at any time
    std::uint32_t remaining_ = 0;
    std::vector<std::uint32_t> transfer_of_;  // operation -> index into transfers_
    std::vector<Transfer> transfers_;
    std::vector<transport::Segment> segments_;  // of all messages, in the order of the messages
    std::byte nothing_{};                       // sent by messages without elements
    std::vector<std::byte*> areas_;
    // Used if the tile is not whole. By area: true if all of x lies there, and not only the tile.
    std::vector<bool> holds_x_;
    std::vector<dsl::AreaId> areas_of_x_;  // those of the current operation
    std::vector<std::byte*> chunk_areas_;  // the areas as placed for one chunk
    std::vector<std::uint64_t> chunk_offsets_;
    std::byte* memory_ = nullptr;  // work and scratch, and copies of buffers that local peers cannot reach
    std::uint64_t memory_bytes_ = 0;

    // Used if there are local peers, or if the input comes from a device and all of it is needed at once.
    LocalPeers* local_peers_ = nullptr;
    DirectStart* direct_ = nullptr;  // as in Start
    const std::byte* send_ = nullptr;
    std::byte *recv_ = nullptr, *copies_[2] = {};  // of input and output; null: no copy
    double factor_ = 1;
    // Used if the program computes.
    std::shared_ptr<const compute::Arguments> arguments_;
    compute::KeptState* state_ = nullptr;
    std::uint64_t state_turn_ = 0;
    bool entered_ = true;
    std::vector<bool> contacts_;  // by member

    StagedOps staged_;
};

}  // namespace hocket::engine
