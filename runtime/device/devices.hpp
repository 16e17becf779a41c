// The devices that a communicator's buffers have been on, and the streams that its threads have set.
#pragma once

#include <map>
#include <memory>
#include <optional>

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

class Devices {
  public:
    // may_export: other processes may copy from these devices' memory, and this process from theirs.
    explicit Devices(bool may_export);
    ~Devices();
    Devices(const Devices&) = delete;

    bool may_export() const { return may_export_; }

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

    const bool may_export_;
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
    Stream stream;  // the calling thread's
};

}  // namespace hocket::device
