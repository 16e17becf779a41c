#include "runtime/engine/device_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/device/running_kernels.hpp"
#include "runtime/engine/run/shared_kernels.hpp"

namespace hocket::engine {

DeviceBuffers::DeviceBuffers(const Options& options, const RankLog& log, const transport::Window& window,
                             Progress& progress)
    : devices_({.may_export = options.cuda_ipc,
                .launches_block = options.cuda_launches_block,
                .timeout = options.timeout,
                .code_folder = options.cuda_code,
                .packet_bytes = options.cuda_packets},
               [&log](const std::string& reason) {
                   log.log(LogLevel::info, "data of devices go by way of the host: {}", reason);
               }),
      window_(window),
      progress_(progress) {}

std::optional<device::Place> DeviceBuffers::place_of(const device::Driver& driver, const void* memory,
                                                     const char* name) const {
    if (window_.offset_of(memory, 1)) return std::nullopt;
    return device::place_of(driver, memory, name);
}

std::optional<device::Buffers> DeviceBuffers::of(const Plan& plan, const void* send, const void* recv,
                                                 const Extent& extent) {
    const device::Driver* driver = device::find_driver();
    if (!driver) return std::nullopt;
    const bool is_by_pair = plan.is_by_pair();
    const bool sends = is_by_pair ? extent.uneven->sent().count > 0
                                  : plan.input() != dsl::Share::none && extent.count > 0,
               receives = is_by_pair ? extent.uneven->received().count > 0
                                     : plan.output() != dsl::Share::none && extent.count > 0;
    std::optional<device::Place> from, to;
    std::vector<std::optional<device::Place>> further;
    try {
        if (sends) from = place_of(*driver, send, "send");
        if (receives) to = place_of(*driver, recv, "recv");
        if (extent.arguments && extent.count > 0) further = further_of(*driver, *extent.arguments);
    } catch (const std::exception& error) {
        progress_.cannot_start(error);
        throw;
    }
    if (!from && !to && further.empty()) return std::nullopt;
    return device::Buffers{*driver, devices_, from, to, devices_.stream(), std::move(further)};
}

// Returns the places of a start's further buffers; nothing if all are on the host.
std::vector<std::optional<device::Place>> DeviceBuffers::further_of(
    const device::Driver& driver, const compute::Arguments& arguments) const {
    std::vector<std::optional<device::Place>> places;
    for (std::size_t i = 0; i < arguments.given.size(); ++i)
        places.push_back(place_of(driver, arguments.given[i], fmt::format("buffers[{}]", i).c_str()));
    if (std::ranges::none_of(places, [](const auto& place) { return place.has_value(); })) places.clear();
    return places;
}

std::optional<device::Buffers> DeviceBuffers::of(const MessageStart& message) {
    const device::Driver* driver =
        message.bytes > most_without_look ? device::find_driver() : device::known_driver();
    if (!driver || message.bytes == 0) return std::nullopt;
    try {
        const auto place = place_of(*driver, message.data, "buffer");
        if (!place) return std::nullopt;
        return device::Buffers{*driver, devices_, place, place, devices_.stream()};
    } catch (const std::exception& error) {
        progress_.cannot_start(error);
        throw;
    }
}

void DeviceBuffers::load_kernel(const Plan& plan) {
    const device::Driver* driver = device::known_driver();
    if (!driver || !SharedKernels::suits(plan)) return;
    int device = 0;
    if (driver->context_get_device(&device) != device::CUDA_SUCCESS) return;  // the thread uses none yet
    progress_.while_still([&] {
        const auto held = device::RunningKernels::of_process().hold_if_none();
        if (!held) return;  // then the first start does
        try {
            SharedKernels::load(plan, devices_.queues(*driver, {nullptr, device}),
                                devices_.use().code_folder);
        } catch (const Error& error) {
            if (error.status() == Status::device) throw;
        }
    });
}

void DeviceBuffers::set_stream(device::Stream stream) {
    if (stream)
        device::require_driver();
    else
        device::find_driver();
    devices_.set_stream(stream);
}

}  // namespace hocket::engine
