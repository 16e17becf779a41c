// The starts of a plan, by one execution, whose private buffers local peers may use where they are: how the
// ranks of a host agree on that for each start, and measure it.
//
// Each rank shows in its line if its buffers can be lent. The first member says whether they shall, and all
// read it when they have met. After that each rank takes the time until it is done, and shows it in its line
// of the plan's next start; the longest of them counts (SingleCopyChoice).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/single_copy_choice.hpp"

namespace hocket::engine {

class SingleCopyStarts {
  public:
    explicit SingleCopyStarts(const Plan& plan);

    // A caller's buffer: the part that it holds.
    struct Buffer {
        const void* memory;
        std::uint64_t bytes, skipped;  // skipped: of the positions that lie before it
    };
    // Writes this rank's part of the line for a start. bytes: of x. may_lend: false if peers must not use the
    // buffers themselves. Returns true if they may use them.
    bool show(LocalPeers& local_peers, std::uint64_t number, std::uint64_t bytes, bool may_lend,
              const Buffer& input, const Buffer& output);
    // Returns true if peers use each other's private buffers in this start. Call when all have come, if not
    // all that peers use lies in windows.
    bool decide(LocalPeers& local_peers, std::uint64_t number);
    // Call when this rank's part of the start that was decided last is done.
    void done();

  private:
    using Clock = std::chrono::steady_clock;
    struct Timed {
        std::uint64_t number;
        SingleCopyChoice::Kind kind;
        SingleCopyChoice::Choice choice;
    };

    SingleCopyChoice::Choice choose(const LocalPeers& local_peers);
    void note_last(LocalPeers& local_peers, std::uint64_t number);

    bool suits_program_;
    SingleCopyChoice::Choice chosen_{};     // at the first member, for this start
    SingleCopyChoice::Kind kind_{};         // of this start
    std::optional<Clock::time_point> met_;  // nullopt: this start is not timed
    std::uint64_t met_number_ = 0;
    std::uint64_t timed_number_ = ~std::uint64_t{0}, time_ = 0;  // of the start that was done last
    std::optional<Timed> last_;                                  // at the first member: not noted yet
    std::unique_ptr<SingleCopyChoice> choice_;                   // at the first member
};

}  // namespace hocket::engine
