// All ranks of a job in one process, without a communicator, moved one step at a time: the test determines
// their order, so no result depends on a scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsl/planning/compile.hpp"
#include "runtime/engine/run/execution.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/startable_plan.hpp"
#include "tests/runtime/engine/run/post.hpp"

namespace hocket::test {

// The operation that all ranks start.
struct Play {
    dsl::Collective collective = dsl::Collective::all_reduce;
    std::string schedule = "ring";
    std::string hosts = "abc";  // a letter for each rank
    ReduceOp op = ReduceOp::sum;
    dsl::Protocol protocol = dsl::Protocol::bandwidth;
    bool in_window = false, in_place = false;  // in_place: buffers of the same size coincide
    dsl::Rank root = 0;
    engine::ExecutorKind executor = engine::ExecutorKind::interpreter;
    bool shares_cores = false;  // if not, each rank has a core
};

// One rank.
class Puppet {
  public:
    Puppet(const Play& play, const dsl::CheckedSchedule& schedule, dsl::Rank rank,
           std::unique_ptr<engine::LocalPeers> local_peers, Post& post);
    ~Puppet();  // gives back starts that have not ended

    // Begins start `number`, whose inputs follow from the start and the rank.
    void begin(std::uint64_t number, std::uint64_t count, std::uint32_t checksum = 77);
    // Advances within the budget, and takes one message that has arrived.
    bool move(std::uint64_t budget = 1 << 20);
    bool is_done() const { return !first_ || first_->status_of_all() != Status::in_progress; }
    // Gives back the start. Returns "", or the error in the result.
    std::string end();

    const engine::Run& run() const { return first_->run(); }
    engine::StartablePlan& plan() { return *plan_; }
    engine::LocalPeers* local_peers() { return local_peers_.get(); }
    std::size_t tiles() const;

    // For the start that `begin` would make: its input, and the expected contents of the receive buffer.
    std::vector<std::int64_t> input(std::uint64_t number, std::uint64_t count) const;
    std::vector<std::int64_t> expected(std::uint64_t number, std::uint64_t count) const;

  private:
    std::int64_t* room(std::vector<std::int64_t>& own, std::uint64_t elements);

    const Play play_;
    const dsl::Rank rank_, ranks_;
    std::unique_ptr<engine::LocalPeers> local_peers_;
    std::shared_ptr<engine::StartablePlan> plan_;
    PostBox box_;
    engine::Execution* first_ = nullptr;
    std::vector<std::int64_t> own_send_, own_recv_;
    std::vector<void*> blocks_;  // of the window, of this start
    std::int64_t *send_ = nullptr, *recv_ = nullptr;
    std::uint64_t number_ = 0, count_ = 0, next_sequence_ = 0;
};

class Stage {
  public:
    explicit Stage(const Play& play, unsigned seed = 1);

    std::vector<std::unique_ptr<Puppet>> puppets;
    Post post;

    Puppet& operator[](std::size_t rank) { return *puppets[rank]; }
    std::size_t size() const { return puppets.size(); }

    // Every rank does these starts, one after another, in random bursts, so that some ranks are far ahead of
    // others. Returns "", or the error.
    std::string play(const std::vector<std::uint64_t>& counts);
    // Moves the ranks that have begun and are not done, in turn, until nothing moves any more.
    void settle();
};

}  // namespace hocket::test
