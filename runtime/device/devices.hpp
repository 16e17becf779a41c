// The devices that a communicator's buffers have been on, and the streams that its threads have named.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "runtime/device/driver.hpp"
#include "runtime/device/queues.hpp"

namespace hocket::device {

// Where memory of a device lies.
struct Place {
    Context context = nullptr;  // null: the device's primary context
    int device = 0;
};

// None: the memory is the host's, pinned memory included, and Hocket reads and writes it where it is. Managed
// memory counts as a device's. doing: as in Driver::require. Throws hocket::Error (device). Thread-safe.
std::optional<Place> place_of(const Driver& driver, const void* memory, const char* name);

class Devices {
  public:
    // may_export: whether other processes may copy from these devices' memory, and this one from theirs.
    explicit Devices(bool may_export);
    ~Devices();
    Devices(const Devices&) = delete;

    bool may_export() const { return may_export_; }

    // The calling thread's stream for this communicator; null: the default stream. Thread-safe.
    void set_stream(Stream stream);
    Stream stream() const;

    // Made at first use. Not thread-safe. Throws hocket::Error (device).
    Queues& queues(const Driver& driver, const Place& place);
    // Those of the context that the stream is of; of the given one for a default stream, which every context
    // has.
    Queues& queues_of(Stream stream, Queues& usual);

  private:
    Context primary_context(const Driver& driver, int device);

    const bool may_export_;
    const std::uint64_t serial_;  // no other communicator of the process has or had it
    const Driver* driver_ = nullptr;
    struct Primary {
        int handle;
        Context context;
    };
    std::map<int, Primary> primary_;  // those that were retained, by device
    std::map<Context, std::unique_ptr<Queues>> queues_;
};

// Buffers of a start, of which at least one is on a device.
struct Buffers {
    const Driver& driver;
    Devices& devices;
    std::optional<Place> send, recv;
    Stream stream;  // the calling thread's
};

}  // namespace hocket::device
