// A start that has been launched as a kernel on every rank of the host. The kernels order their work among
// themselves, and all end together; the host waits for its own.
//
// The host keeps the time: if the deadline comes, it tells the kernel to give up. The kernel's own deadline
// is for hosts that are in no call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/engine/run/kernel_start.hpp"
#include "runtime/engine/run/run.hpp"

namespace hocket::engine {

class KernelRun final : public Run {
  public:
    void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) override;
    bool advance(transport::Fabric* fabric, std::uint64_t& budget) override;
    void complete(dsl::OpId) override {}
    void release() override { binding_.reset(); }
    std::uint64_t memory_bytes() const override { return 0; }

    const Binding& binding() const override { return *binding_; }
    bool is_complete(dsl::OpId) const override { return is_done_; }
    // The operation that the kernel waits in, as far as it has told; or the rank that it waits for at the
    // end.
    std::optional<dsl::OpId> first_incomplete() const override;
    std::optional<dsl::Rank> awaited_at_end() const override;
    bool has_given_up() const override { return has_given_up_; }

  private:
    struct Wait {
        std::uint32_t operation, peer;
    };
    std::optional<Wait> wait() const;

    const dsl::RankProgram* program_ = nullptr;
    KernelStart* start_ = nullptr;
    std::shared_ptr<const Binding> binding_;
    bool is_given_up_ = false, has_given_up_ = false;
};

}  // namespace hocket::engine
