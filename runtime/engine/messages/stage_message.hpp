// Messages from and to device memory.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/direct_buffer.hpp"
#include "runtime/device/staging.hpp"
#include "runtime/engine/messages/message_request.hpp"

namespace hocket::engine {

// Replaces the buffer by a staging buffer on the host, and begins to fill it for a send. behind: as in
// device::StagedBuffer. Throws hocket::Error like device::Staging; so do all functions below.
std::unique_ptr<device::Staging> stage(MessageStart& start, const device::Buffers& buffers,
                                       const device::StreamPoint* behind = nullptr);

// Returns the buffer itself, for a message that may go from device to device. Returns null if it cannot, or
// if HOCKET_CUDA_IPC forbids it.
std::unique_ptr<device::DirectBuffer> leave_on_device(const MessageStart& start,
                                                      const device::Buffers& buffers);

// Stages the buffer of a request that was left on its device: the message now goes through the host.
void stage(MessageRequest& request);

// Returns true if the data can be offered: they are on the host, or ready on their device.
bool has_come(const MessageRequest& send);

// Returns true if the request's next step is a copy by a device, which has to be polled.
// awaited_of_device() describes the step, for people.
bool waits_for_device(const MessageRequest& request);
std::string awaited_of_device(const MessageRequest& request);

// Copies the received data to the device, for a request that has ended in success.
void hand_over(device::Staging& staging, const MessageStart& start);

}  // namespace hocket::engine
