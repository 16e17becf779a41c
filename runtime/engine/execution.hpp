// One start of a plan, or one tile of a large start: the state of its operations, its memory, and its
// messages in flight.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/neighbourhood.hpp"
#include "runtime/engine/plan.hpp"
#include "runtime/engine/shared_run.hpp"
#include "runtime/engine/tiles.hpp"
#include "runtime/error.hpp"
#include "runtime/request.hpp"
#include "runtime/transport/fabric.hpp"

namespace hocket::engine {

class Execution : public Request {
  public:
    using Clock = std::chrono::steady_clock;

    // A message of this execution; its address is in transport::Message::user.
    struct Transfer {
        transport::Message message;
        Execution* execution = nullptr;
        dsl::OpId op = 0;
        std::size_t first_segment = 0;  // index into segments_
    };

    explicit Execution(const Plan& plan);
    ~Execution();

    // neighbourhood: null if the program has no neighbours. The plan is kept alive until release().
    void begin(const Start& start, std::uint64_t tile, Neighbourhood* neighbourhood);
    void release();  // gives itself, and the tiles behind it, back to the plan

    // Local work done between two looks at the fabric: about 10 us of it, so that messages keep flowing.
    static constexpr std::uint64_t local_budget_bytes = 128 * 1024;

    // Posts messages and runs local work as far as their dependencies and the budget allow, and takes that
    // from the budget. False if there was nothing to do. Throws what the fabric throws.
    bool advance(transport::Fabric* fabric, std::uint64_t& budget);

    // Operation `op` is done: its successors may be ready now.
    void complete(dsl::OpId op);

    // In progress until the last operation is complete, or end() says otherwise.
    Status status() const { return status_; }
    std::size_t messages() const { return transfers_.size(); }  // at most: for some counts there are fewer
    void end(Status status) { status_ = status; }
    // That it keeps for its next start.
    std::uint64_t memory_bytes() const { return shared_ ? shared_->memory_bytes() : memory_bytes_; }

    // Of the same start. Whoever started has the first tile.
    Execution* next_tile() const { return next_tile_; }
    void set_next_tile(Execution& tile) { next_tile_ = &tile; }
    Status status_of_all() const;  // this tile and those behind it: in progress as long as one is

    const Plan& plan() const { return *plan_; }
    const Binding& binding() const { return shared_ ? *shared_->binding() : *binding_; }
    const Start& start() const { return start_; }
    std::uint64_t tile() const { return tile_; }
    std::uint64_t number() const { return start_.number; }
    std::uint64_t turn() const { return start_.turn + tile_; }
    std::uint32_t checksum() const { return start_.checksum; }
    Clock::time_point deadline() const { return deadline_; }
    void set_deadline(Clock::time_point deadline) { deadline_ = deadline; }
    std::uint64_t bytes_of(const dsl::Op& op) const { return binding().bytes_of(op); }
    bool has_neighbours() const { return !plan_->program().neighbours.empty(); }
    // A neighbour has started something else.
    const std::optional<Disagreement>& disagreement() const {
        return shared_ ? shared_->disagreement() : disagreement_;
    }

    std::optional<dsl::Rank> awaited_at_start() const {
        return shared_ ? shared_->awaited_at_start() : std::nullopt;
    }
    bool is_complete(dsl::OpId op) const {
        return shared_ ? op < shared_->next_op() : waits_[op] == Binding::complete;
    }
    std::optional<dsl::OpId> first_incomplete() const;

  private:
    // Operations that may start, first come first served. Each operation enters one queue, once.
    struct Queue {
        std::vector<dsl::OpId> ops;
        std::size_t head = 0;

        bool empty() const { return head == ops.size(); }
        void clear() { ops.clear(), head = 0; }
    };

    void enqueue(dsl::OpId op);
    void need_memory(std::uint64_t bytes);
    void free_memory();
    void place_areas();
    void make_copies();
    bool works_beside_copies() const;
    std::uint64_t move_copies(dsl::AreaId area);
    std::uint64_t enter();
    bool look_for_neighbours();
    bool contact(const dsl::Op& op, dsl::OpId id);
    std::uint64_t bytes_of_buffer(dsl::AreaId area) const;
    bool post(Queue& queue, transport::Fabric* fabric);
    bool post_one(const dsl::Op& op, dsl::OpId id, transport::Fabric& fabric);
    std::span<const transport::Segment> segments_of(const dsl::Op& op, const Transfer& transfer);

    const Plan* plan_;
    std::shared_ptr<Plan> keep_alive_;
    Start start_;
    std::uint64_t tile_ = 0;
    Execution* next_tile_ = nullptr;
    std::shared_ptr<const Binding> binding_;
    std::vector<std::uint32_t> waits_;
    Queue receives_, sends_, local_;
    std::vector<dsl::OpId> awaits_;  // that may end any time
    std::uint32_t remaining_ = 0;
    std::vector<std::uint32_t> transfer_of_;  // operation -> index into transfers_
    std::vector<Transfer> transfers_;
    std::vector<transport::Segment> segments_;  // of all messages, in their order
    std::vector<std::byte*> areas_;
    std::byte* memory_ = nullptr;  // work and scratch, and copies of buffers that neighbours cannot reach
    std::uint64_t memory_bytes_ = 0;
    std::unique_ptr<SharedRun> shared_;  // does it all, where there are no messages

    // Among neighbours, with messages.
    Neighbourhood* neighbourhood_ = nullptr;
    const std::byte* send_ = nullptr;
    std::byte *recv_ = nullptr, *copies_[2] = {};  // of input and output; null: they are used where they are
    bool entered_ = true;
    std::vector<bool> contacts_;  // by member
    std::optional<Disagreement> disagreement_;

    Clock::time_point deadline_;
    Status status_ = Status::success;
};

}  // namespace hocket::engine
