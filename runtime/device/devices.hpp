// The devices that a communicator's buffers have been on, and the streams that its threads have set.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/by_host.hpp"
#include "runtime/device/driver.hpp"
#include "runtime/device/queues.hpp"

namespace hocket::device {

// The place of a device's memory.
struct Place {
    Context context = nullptr;  // null: the device's primary context
    int device = 0;
};

// Returns the place of device memory. Returns nullopt for host memory, pinned memory included, which Hocket
// reads and writes directly. Managed memory counts as a device's. name: the argument's name, for errors.
// Throws hocket::Error (device). Thread-safe.
std::optional<Place> place_of(const Driver& driver, const void* memory, const char* name);

// Returns true if the driver knows the memory: a device's, or host memory that it has pinned. Thread-safe.
bool is_known(const Driver& driver, const void* memory);

// How a communicator uses devices.
struct DeviceUse {
    bool may_export = true;  // other processes may use these devices' memory, and this process theirs
    // A launch returns when the kernel has ended (CUDA_LAUNCH_BLOCKING), so kernels that wait for each other
    // cannot be launched by one process.
    bool launches_block = false;
    std::chrono::nanoseconds timeout{};  // of a start
    std::string code_folder = "";        // keeps compiled code of kernels; "": none does
    // The most bytes of an input that kernels of plans send as packets, at most as many as they can.
    std::uint64_t packet_bytes = 0;
};

class Devices {
  public:
    Devices(const DeviceUse& use, std::function<void(const std::string&)> tell_by_host);
    ~Devices();
    Devices(const Devices&) = delete;

    const DeviceUse& use() const { return use_; }
    bool may_export() const { return use_.may_export; }
    ByHost& by_host() { return by_host_; }
    const ByHost& by_host() const { return by_host_; }

    // The calling thread's stream for this communicator; null: the default stream. Thread-safe.
    void set_stream(Stream stream);
    Stream stream() const;

    // Makes the queues at the first use. Not thread-safe. Throws hocket::Error (device).
    Queues& queues(const Driver& driver, const Place& place);
    // Returns the queues of the stream's context; for a default stream, which every context has, returns
    // `usual`.
    Queues& queues_of(Stream stream, Queues& usual);

  private:
    Context primary_context(const Driver& driver, int device);

    const DeviceUse use_;
    ByHost by_host_;
    const std::uint64_t serial_;  // unique in the process, also among destroyed communicators
    const Driver* driver_ = nullptr;
    struct Primary {
        int handle;
        Context context;
    };
    std::map<int, Primary> primary_;  // the retained contexts, by device
    std::map<Context, std::unique_ptr<Queues>> queues_;
};

// The buffers of a start, at least one of which is on a device.
struct Buffers {
    const Driver& driver;
    Devices& devices;
    std::optional<Place> send, recv;
    Stream stream;                                   // the calling thread's
    std::vector<std::optional<Place>> further = {};  // of a plan that computes; empty: all are on the host
};

}  // namespace hocket::device
