// Messages from and to memory of a device.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/direct_buffer.hpp"
#include "runtime/device/staging.hpp"
#include "runtime/engine/messages/message_request.hpp"

namespace hocket::engine {

// Puts memory of the host in place of the buffer, and begins to fill it for a send. behind: as in
// device::StagedBuffer. Throws hocket::Error like device::Staging; so do all that follow.
std::unique_ptr<device::Staging> stage(MessageStart& start, const device::Buffers& buffers,
                                       const device::StreamPoint* behind = nullptr);

// The buffer as it is, for a message that may go from device to device. Null: it cannot, or HOCKET_CUDA_IPC
// says that it may not.
std::unique_ptr<device::DirectBuffer> leave_on_device(const MessageStart& start,
                                                      const device::Buffers& buffers);

// For a request whose buffer was left on its device: from now on it goes by way of the host.
void stage(MessageRequest& request);

// Whether what is sent can be offered: it is on the host, or ready on its device.
bool has_come(const MessageRequest& send);

// Whether the next step for the request is a device's, which rings no bell; and what it is, for people.
bool waits_for_device(const MessageRequest& request);
std::string awaited_of_device(const MessageRequest& request);

// For a request that has ended in success: what came goes to the device.
void hand_over(device::Staging& staging, const MessageStart& start);

}  // namespace hocket::engine
