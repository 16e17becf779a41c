// A rank's view of its job: the parts of a communicator, and the operations that it starts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/engine/device_buffers.hpp"
#include "runtime/engine/exchanges.hpp"
#include "runtime/engine/job/connections.hpp"
#include "runtime/engine/job/options.hpp"
#include "runtime/engine/job/rank_log.hpp"
#include "runtime/engine/plans.hpp"
#include "runtime/engine/progress/background.hpp"
#include "runtime/engine/progress/progress.hpp"
#include "runtime/engine/recorder.hpp"

namespace hocket::engine {

// All functions are thread-safe and throw hocket::Error. Executions are lent as in Progress.
class Communicator {
  public:
    // Joins the job; collective.
    static std::unique_ptr<Communicator> create(const Options& options);

    // Leaves the job: gives the others up to 500 ms to take what this rank has sent them, then says goodbye.
    ~Communicator();

    const Options& options() const { return connections_->options(); }
    int rank() const { return rank_; }
    int size() const { return size_; }
    const std::string& schedule_path() const { return schedule_path_; }

    const Connections& connections() const { return *connections_; }
    Plans& plans() { return plans_; }
    Exchanges& exchanges() { return exchanges_; }
    DeviceBuffers& devices() { return devices_; }
    const DeviceBuffers& devices() const { return devices_; }
    Recorder& recorder() { return *recorder_; }
    Progress& progress() { return *progress_; }

    // factor: for this rank's input, if the plan multiplies.
    Execution& start(const std::shared_ptr<StartablePlan>& plan, const void* send, void* recv,
                     const Extent& extent, double factor = 1) {
        if (DeviceBuffers::may_be_used(extent))
            if (const auto buffers = devices_.of(*plan, send, recv, extent))
                return progress_->start(plan, extent, send, recv, factor, std::nullopt, &*buffers);
        return progress_->start(plan, extent, send, recv, factor);
    }
    void run(const std::shared_ptr<StartablePlan>& plan, const void* send, void* recv, const Extent& extent,
             double factor = 1) {
        if (DeviceBuffers::may_be_used(extent))
            if (const auto buffers = devices_.of(*plan, send, recv, extent))
                return progress_->run(plan, extent, send, recv, factor, &*buffers);
        progress_->run(plan, extent, send, recv, factor);
    }
    MessageRequest& start(const MessageStart& message) {
        check_message(message);
        const auto buffers = devices_.of(message);
        return progress_->start(message, buffers ? &*buffers : nullptr);
    }
    void run(const MessageStart& message) {
        check_message(message);
        const auto buffers = devices_.of(message);
        progress_->run(message, buffers ? &*buffers : nullptr);
    }

  private:
    explicit Communicator(std::shared_ptr<Connections> connections);
    void check_message(const MessageStart& message) const;
    void share_buffers();
    void log_joining() const;

    // Each part knows those above it.
    const std::shared_ptr<Connections> connections_;
    const int rank_, size_;
    const std::string schedule_path_;
    std::unique_ptr<Tracer> tracer_;  // null: no tracing
    std::unique_ptr<Progress> progress_;
    std::unique_ptr<Recorder> recorder_;
    const RankLog log_;
    Plans plans_;
    DeviceBuffers devices_;
    Exchanges exchanges_;
    std::unique_ptr<Background> background_;  // null: operations make progress only during calls
};

}  // namespace hocket::engine
