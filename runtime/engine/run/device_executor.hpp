// Runs the copies of a rank's program on a device. Copies are posted to one stream, where each follows those
// before it, and they end later: an event says when.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/device/copies.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"

namespace hocket::engine {

// Not thread-safe. Throws hocket::Error like device::Copies.
class DeviceExecutor {
  public:
    // Returns true if the executor has a kernel for the operation; the others stay with the host.
    static bool runs(const dsl::Op& op) { return op.kind == dsl::Op::Kind::copy; }

    // program: must outlive the executor, like the queues of `copies`.
    DeviceExecutor(const dsl::RankProgram& program, device::Queues& queues, std::string doing)
        : program_(program), copies_(queues, std::move(doing)) {}

    // Opens memory that a local peer has exported, until end(). Returns null if this process cannot reach it.
    std::byte* open(const device::Exported& exported);

    // Returns false while most_posted_bytes or more are posted and not known to have ended. No more should be
    // posted then: posted copies cannot be called back, and after a failure local peers wait for them only
    // for a while.
    bool has_room() const { return posted_.empty() || posted_bytes_ < most_posted_bytes; }

    // Posts a copy, to be followed by flush(), which covers all copies that were posted before it. areas,
    // byte_offsets: as in Executor::run; the areas are memory of devices. Returns false, and posts nothing,
    // if a rank whose memory it uses has failed; this rank learns of the failure elsewhere.
    bool post(dsl::OpId id, const std::byte* const* areas, const std::uint64_t* byte_offsets,
              LocalPeers& local_peers);
    void flush();

    // Returns the next copy that has ended, in the order in which they were posted.
    std::optional<dsl::OpId> next_ended(LocalPeers& local_peers);
    bool is_busy() const { return !posted_.empty(); }  // some copies are not known to have ended

    // Call once all copies have ended: closes the local peers' memory.
    void end() noexcept { copies_.end(); }
    // Call after a failure. Waits up to a second for the copies that are under way. Returns false if they
    // have not ended; then local peers go on counting them.
    bool settle(LocalPeers& local_peers) noexcept;

  private:
    static constexpr std::uint64_t most_posted_bytes = 64 << 20;  // a fraction of a second on any link

    struct Posted {
        dsl::OpId op;
        std::size_t pulls;    // begun for it
        std::uint64_t fence;  // has ended once this many fences are reached
        std::uint64_t bytes;
    };

    std::optional<std::size_t> begin_pulls(const dsl::Op& op, LocalPeers& local_peers) const;

    const dsl::RankProgram& program_;
    device::Copies copies_;
    std::deque<Posted> posted_;
    std::uint64_t fences_ = 0, posted_bytes_ = 0;
};

}  // namespace hocket::engine
