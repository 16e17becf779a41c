// Starts whose buffers are on a device: the order of copies to and from the host, and the input that an
// operation has to wait for. The other ranks are not affected: all of them divide a start as always.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/staging.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// Replaces the start's device buffers by staging buffers on the host, and begins to fill them. The start
// refers to the returned object. The points: as in device::StagedBuffer. Throws hocket::Error like
// device::Staging.
std::unique_ptr<device::Staging> stage(Start& start, const device::Buffers& buffers,
                                       const device::StreamPoint* send_behind = nullptr,
                                       const device::StreamPoint* recv_behind = nullptr);

// For a GraphRun: an operation runs once its input has come, and final output is copied to the device.
class StagedOps {
  public:
    // staging: null if no buffer of the start is on a device; then no other function may be called.
    // needs_all_input: nothing runs before all input has come, and no output is final before the end. recv:
    // the caller's buffer on the host. Plan and binding, which is the tile's, must outlive the run.
    void begin(device::Staging* staging, const Plan& plan, const Binding& binding, const Tile& tile,
               std::byte* recv, bool needs_all_input);
    explicit operator bool() const { return staging_ != nullptr; }

    bool has_come(const std::byte* begin, std::uint64_t bytes) const {
        return staging_->has_come(begin, bytes);
    }
    bool further_has_come() const { return staging_->further_has_come(); }
    // Returns true if the operation's input has come, and no input will still arrive where it writes.
    bool may_run(dsl::OpId op, const std::vector<std::byte*>& areas) const;
    void ran(dsl::OpId op);
    void finish(std::uint64_t output_bytes);  // call after the last operation

  private:
    template <typename Call>
    void for_outputs(const dsl::Op& op, Call call) const;
    template <typename Call>
    void for_places(dsl::BoundaryId begin, dsl::BoundaryId end, Call call) const;

    device::Staging* staging_ = nullptr;
    const Plan* plan_ = nullptr;
    const Binding* binding_ = nullptr;
    Tile tile_;
    std::byte* recv_ = nullptr;
    bool needs_all_input_ = false;
    std::vector<std::uint32_t> writers_;  // by boundary: operations that will still write the range after it
};

}  // namespace hocket::engine
