#include "runtime/device/stream_point.hpp"

#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::device {
namespace {

void refuse_capture(const Driver& driver, Stream stream, const std::string& doing) {
    int capturing = 0;
    driver.require(driver.stream_is_capturing(stream, &capturing), "cuStreamIsCapturing", doing);
    if (capturing != 0)
        throw Error(Status::invalid_argument,
                    "the stream is being captured into a graph, and a collective on device memory cannot be "
                    "part of one: the host takes part in it; end the capture before, or name another stream "
                    "with hkt_comm_set_stream");
}

}  // namespace

StreamPoint::StreamPoint(Queues& queues, Stream stream, std::string doing)
    : queues_(queues), doing_(std::move(doing)), event_(record(stream)) {}

Event StreamPoint::record(Stream stream) const {
    const Driver& driver = queues_.driver();
    const InContext there(driver, queues_.context(), doing_);
    refuse_capture(driver, stream, doing_);
    const Event event = queues_.take_event(doing_);
    const int result = driver.event_record(event, stream);
    if (result != CUDA_SUCCESS) queues_.give_back(event);
    driver.require(result, "cuEventRecord", doing_);
    return event;
}

bool StreamPoint::has_come() {
    if (has_come_) return true;
    const InContext there(queues_.driver(), queues_.context(), doing_);
    const int result = queues_.driver().event_query(event_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    queues_.driver().require(result, "cuEventQuery", doing_);
    return has_come_ = true;
}

void StreamPoint::hold_back(Stream stream) const {
    queues_.driver().require(queues_.driver().stream_wait_event(stream, event_, 0), "cuStreamWaitEvent",
                             doing_);
}

}  // namespace hocket::device
