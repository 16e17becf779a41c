// How the runtime reports failures: an exception carries the kind of failure. The C ABI turns it into a
// status and keeps the text.
#pragma once

#include <stdexcept>
#include <string>

namespace hocket {

// The values are those of hkt_status in hocket.h (capi/ asserts that they agree).
enum class Status : int {
    success = 0,
    in_progress = 1,
    invalid_argument = -1,
    schedule = -2,
    not_found = -3,
    bootstrap = -4,
    transport = -5,
    peer_lost = -6,
    timeout = -7,
    mismatch = -8,
    out_of_memory = -9,
    internal = -10,
    io = -11,
    limit = -12,
    device = -13,
    aborted = -14,
    interrupted = -15,
};
inline constexpr int lowest_status = static_cast<int>(Status::interrupted);

class Error : public std::runtime_error {
  public:
    Error(Status status, const std::string& what) : std::runtime_error(what), status_(status) {}
    Status status() const { return status_; }

  private:
    Status status_;
};

}  // namespace hocket
