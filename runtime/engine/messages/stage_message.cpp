#include "runtime/engine/messages/stage_message.hpp"

namespace hocket::engine {

std::unique_ptr<device::Staging> stage(MessageStart& start, const device::Buffers& buffers,
                                       const device::StreamPoint* behind) {
    const bool sends = start.direction == Direction::send;
    const device::Place place = sends ? *buffers.send : *buffers.recv;
    device::StagedBuffer buffer{place, start.data, {{0, start.bytes}}, "buffer", behind};
    auto staging = sends ? device::Staging::begin(buffers, std::move(buffer), std::nullopt)
                         : device::Staging::begin(buffers, std::nullopt, std::move(buffer));
    start.data = sends ? staging->input() : staging->output();
    return staging;
}

std::unique_ptr<device::DirectBuffer> leave_on_device(const MessageStart& start,
                                                      const device::Buffers& buffers) {
    if (!buffers.devices.may_export()) return nullptr;
    if (start.direction == Direction::send)
        return device::DirectBuffer::make(buffers, *buffers.send, start.data, "buffer", "to", start.bytes);
    return device::DirectBuffer::make(buffers, *buffers.recv, start.data, "buffer", "from", std::nullopt);
}

void stage(MessageRequest& request) {
    request.staging = stage(request.start, request.direct->buffers(), &request.direct->point());
    request.direct.reset();
}

bool has_come(const MessageRequest& send) {
    if (send.direct) return send.direct->may_be_used();
    return !send.staging || send.staging->has_come(send.start.data, send.start.bytes);
}

bool waits_for_device(const MessageRequest& request) {
    if (request.staging) return request.staging->is_waiting();
    if (!request.direct) return false;
    const bool sends = request.start.direction == Direction::send;
    return sends ? request.direct->awaits_stream() : request.direct->is_open();
}

std::string awaited_of_device(const MessageRequest& request) {
    return request.direct ? request.direct->awaited() : request.staging->awaited();
}

void hand_over(device::Staging& staging, const MessageStart& start) {
    if (start.direction == Direction::receive) staging.finished(start.data, start.bytes);
    staging.hand_over();
}

}  // namespace hocket::engine
