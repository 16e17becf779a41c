// Messages from and to memory of a device.
#pragma once

#include <memory>

#include "runtime/device/staging.hpp"
#include "runtime/engine/messages/message_request.hpp"

namespace hocket::engine {

// Puts memory of the host in place of the buffer, and begins to fill it for a send. Throws hocket::Error like
// device::Staging.
std::unique_ptr<device::Staging> stage(MessageStart& start, const device::Buffers& buffers);

// Whether what is sent is on the host. Throws as above.
bool has_come(const MessageRequest& send);

// For a request that has ended in success: what came goes to the device. Throws as above.
void hand_over(device::Staging& staging, const MessageStart& start);

}  // namespace hocket::engine
