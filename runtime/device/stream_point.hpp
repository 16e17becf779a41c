// What is on a caller's stream at one time: all that it has enqueued until then.
#pragma once

#include <string>

#include "runtime/device/queues.hpp"

namespace hocket::device {

// Not thread-safe. Throws as Driver::require.
class StreamPoint {
  public:
    // queues: of the stream's context. Throws hocket::Error(invalid_argument) if the stream is being
    // captured, too.
    StreamPoint(Queues& queues, Stream stream, std::string doing);
    ~StreamPoint() { queues_.give_back(event_); }
    StreamPoint(const StreamPoint&) = delete;

    // Whether all of it has ended. Once it has, this costs nothing.
    bool has_come();
    bool is_known_to_have_come() const { return has_come_; }

    // What is enqueued on the stream from now on comes behind it. Call within that stream's context.
    void hold_back(Stream stream) const;

  private:
    Event record(Stream stream) const;

    Queues& queues_;
    const std::string doing_;
    const Event event_;
    bool has_come_ = false;
};

}  // namespace hocket::device
