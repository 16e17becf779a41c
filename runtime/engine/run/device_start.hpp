// A start whose data stay on devices: its ranks meet by marks (DirectRun) before it, unless they need not.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::device {
class Staging;
}

namespace hocket::engine {

class Execution;
class Run;

// Not thread-safe. Throws hocket::Error (device, out_of_memory).
class DeviceStart {
  public:
    DeviceStart() = default;
    virtual ~DeviceStart() = default;  // waits up to a second for work of the device that is under way
    DeviceStart(const DeviceStart&) = delete;

    // Returns true if the ranks need not meet; the same on all ranks. Then the next call is make_run().
    virtual bool has_met() const { return false; }

    // Asked before that call: false while the start has to wait for earlier ones.
    virtual bool has_room() { return true; }

    // Returns true if the caller's stream has the result once the run has begun: the call waits for that.
    virtual bool is_on_stream() const { return false; }

    // Returns true once the start can be shown to local peers; call no more then. members: the ranks of the
    // host.
    virtual bool may_be_used(int members) = 0;
    // After that: true if this rank can run it on its device. If not, it has noted why (device::ByHost).
    virtual bool is_able() const = 0;
    // Shows this rank's memory to the local peers.
    virtual void show(LocalPeers::Shown& own) const = 0;
    // Opens memory of local peers, as they show it under this sequence number. Returns false, and notes why,
    // if something cannot be reached.
    virtual bool open(const LocalPeers& local_peers, std::uint64_t sequence) = 0;
    // Call if not all ranks can: notes that it goes by way of the host for the sake of this one.
    virtual void note_unable(dsl::Rank rank) const = 0;

    // Returns the run that all ranks have agreed on.
    virtual std::unique_ptr<Run> make_run(Execution& execution) const = 0;

    // Call once no rank uses this start's memory any more, in success.
    virtual void end() noexcept = 0;
    // Call after a failure, if local peers have seen this rank's memory: waits up to a second for copies of
    // this rank's device, or until the given time for a kernel of it. Returns true if local peers may be
    // using its memory.
    virtual bool let_go(LocalPeers& local_peers, std::chrono::steady_clock::time_point until) noexcept = 0;

    // Stages the buffers through the host from now on, as the other stage() does. The start no longer refers
    // to this object.
    virtual std::unique_ptr<device::Staging> stage(Start& start) const = 0;

    // Returns true if the next step is a device's; awaited() describes it, for people.
    virtual bool is_waiting() const = 0;
    virtual std::string awaited() const = 0;
};

}  // namespace hocket::engine
