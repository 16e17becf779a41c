// One start whose program is a kernel of the device, on every rank of the host. The kernels order their work
// among themselves; the host launches one, and waits until all have ended.
//
// The host keeps the time: if the deadline comes, it tells the kernel to give up. The kernel's own deadline
// is for hosts that are in no call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/engine/run/direct_start.hpp"
#include "runtime/engine/run/run.hpp"

namespace hocket::engine {

class DeviceRun final : public Run {
  public:
    // The mark that a rank makes when its kernel has ended in success; it is behind those of DirectRun.
    static constexpr std::uint64_t ended = 3;

    void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) override;
    bool advance(transport::Fabric* fabric, std::uint64_t& budget) override;
    void complete(dsl::OpId) override {}
    void release() override { binding_.reset(); }
    std::uint64_t memory_bytes() const override { return 0; }

    const Binding& binding() const override { return *binding_; }
    bool is_complete(dsl::OpId) const override { return has_ended_; }
    // The operation that the kernel waits in, as far as it has told.
    std::optional<dsl::OpId> first_incomplete() const override;
    std::optional<dsl::Rank> awaited_at_end() const override;
    bool has_given_up() const override { return has_given_up_; }

  private:
    bool look_at_report();

    const dsl::RankProgram* program_ = nullptr;
    DirectStart* direct_ = nullptr;
    LocalPeers* local_peers_ = nullptr;
    std::shared_ptr<const Binding> binding_;
    std::uint64_t sequence_ = 0;
    Member met_ = 0;  // members before it have ended
    bool is_launched_ = false, has_ended_ = false, is_given_up_ = false, has_given_up_ = false;
};

}  // namespace hocket::engine
