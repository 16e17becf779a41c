// A point on a caller's stream: all work that was enqueued before it.
#pragma once

#include <string>

#include "runtime/device/queues.hpp"

namespace hocket::device {

// Not thread-safe. Throws as Driver::require.
class StreamPoint {
  public:
    // queues: of the stream's context. Also throws hocket::Error(invalid_argument) if the stream is being
    // captured.
    StreamPoint(Queues& queues, Stream stream, std::string doing);
    ~StreamPoint() { queues_.give_back(event_); }
    StreamPoint(const StreamPoint&) = delete;

    // Returns true if all work before the point has ended. Once it has, this costs nothing.
    bool has_come();
    bool is_known_to_have_come() const { return has_come_; }

    // Makes work that is enqueued on the stream from now on wait for the point. Call within that stream's
    // context.
    void hold_back(Stream stream) const;

  private:
    Event record(Stream stream) const;

    Queues& queues_;
    const std::string doing_;
    const Event event_;
    bool has_come_ = false;
};

}  // namespace hocket::device
