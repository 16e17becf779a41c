// The shortest way through a small start among the ranks of one host: every rank publishes a copy of its
// input once, and reads what it needs from the others' copies. It either does the whole start at once, or
// nothing that the general way (Execution, SharedRun) would not do again. In the latter case a local peer was
// late, or has started something else.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/engine/plan/executor.hpp"
#include "runtime/engine/plan/hand_over_path.hpp"
#include "runtime/engine/run/local_peers.hpp"

namespace hocket::engine {

struct Binding;
class Plan;

class SmallRun {
  public:
    // Returns null if the plan's program does not suit it.
    static std::unique_ptr<SmallRun> of(const Plan& plan);

    // Call with nothing in flight; arguments as for SharedRun::begin. Returns false if the start was not
    // done.
    bool run(Plan& plan, LocalPeers& local_peers, std::uint64_t count, const void* send, void* recv,
             double factor, std::uint64_t sequence, std::uint32_t checksum);

  private:
    explicit SmallRun(const Plan& plan);
    void show(const Plan& plan, LocalPeers& local_peers, std::uint64_t sequence, std::uint32_t checksum,
              const void* send, double factor, const HandOverPath::Choice& choice);
    void copy_shown(const Plan& plan, std::byte* copy, const std::byte* input, double factor,
                    kernels::Path path) const;
    void combine(Plan& plan) const;
    std::chrono::nanoseconds now() const;
    void note_time(Plan& plan, LocalPeers& local_peers, const HandOverPath::Choice& choice) const;
    template <typename Call>
    void time(const HandOverPath::Choice& choice, Call call);
    bool meet(LocalPeers& local_peers, std::uint64_t sequence, std::uint32_t checksum) const;
    std::byte* copy_of(const LocalPeers& local_peers, Member member, std::uint64_t sequence) const;
    void place(const LocalPeers& local_peers, std::uint64_t sequence, const void* send, void* recv);

    const dsl::RankProgram& program_;

    // All of these are awaited before anything is written, because input and output may be one buffer, and
    // the general way reads the input again.
    std::vector<dsl::Rank> awaited_;
    struct LocalOp {
        dsl::OpId id;
        dsl::BoundaryId begin, end;
    };
    std::vector<LocalOp> local_;  // combines and copies, in program order
    dsl::BoundaryId output_origin_, input_origin_;
    std::uint64_t element_, parts_, most_elements_;
    bool reads_send_, shows_part_, multiplies_;

    std::shared_ptr<const Binding> binding_;  // of the last count
    std::uint64_t count_ = 0, bytes_ = 0;     // count as given; bytes of x
    std::vector<std::byte*> areas_;
    bool shares_cores_ = false;        // with other ranks
    std::chrono::nanoseconds busy_{};  // if timed: the time of this start's work
};

}  // namespace hocket::engine
