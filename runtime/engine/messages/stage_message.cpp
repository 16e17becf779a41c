#include "runtime/engine/messages/stage_message.hpp"

namespace hocket::engine {

std::unique_ptr<device::Staging> stage(MessageStart& start, const device::Buffers& buffers) {
    const bool sends = start.direction == Direction::send;
    const device::Place place = sends ? *buffers.send : *buffers.recv;
    device::StagedBuffer buffer{place, start.data, {{0, start.bytes}}, "buffer"};
    auto staging = sends ? device::Staging::begin(buffers, std::move(buffer), std::nullopt)
                         : device::Staging::begin(buffers, std::nullopt, std::move(buffer));
    start.data = sends ? staging->input() : staging->output();
    return staging;
}

bool has_come(const MessageRequest& send) {
    return !send.staging || send.staging->has_come(send.start.data, send.start.bytes);
}

void hand_over(device::Staging& staging, const MessageStart& start) {
    if (start.direction == Direction::receive) staging.finished(start.data, start.bytes);
    staging.hand_over();
}

}  // namespace hocket::engine
