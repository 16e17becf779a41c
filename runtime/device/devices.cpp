#include "runtime/device/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace hocket::device {
namespace {

// The thread's streams by communicator, a few at most. Entries of destroyed communicators are never looked up
// again.
thread_local std::vector<std::pair<std::uint64_t, Stream>> own_streams;

}  // namespace

std::optional<Place> place_of(const Driver& driver, const void* memory, const char* name) {
    const int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                              CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 0, is_managed = 0;
    Place place;
    void* values[] = {&type, &is_managed, &place.context, &place.device};
    const int result = driver.pointer_get_attributes(
        4, attributes, values, static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(memory)));
    // A process that has not initialized CUDA, or has already ended its use, has no device memory.
    if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED ||
        result == CUDA_ERROR_INVALID_CONTEXT)
        return std::nullopt;
    if (result != CUDA_SUCCESS)
        driver.require(result, "cuPointerGetAttributes",
                       fmt::format("asking where {} ({}) lies", name, memory));
    if (type != CU_MEMORYTYPE_DEVICE && is_managed == 0) return std::nullopt;
    place.device = std::max(place.device, 0);  // managed memory may have no device
    return place;
}

bool is_known(const Driver& driver, const void* memory) {
    const int attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 0;
    void* value = &type;
    const int result = driver.pointer_get_attributes(
        1, &attribute, &value, static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(memory)));
    return result == CUDA_SUCCESS && type != 0;
}

Devices::Devices(const DeviceUse& use, std::function<void(const std::string&)> tell_by_host)
    : use_(use), by_host_(std::move(tell_by_host)), serial_([] {
          static std::atomic<std::uint64_t> serials{0};
          return ++serials;
      }()) {}

Devices::~Devices() {
    queues_.clear();
    for (const auto& [device, primary] : primary_) driver_->primary_context_release(primary.handle);
}

void Devices::set_stream(Stream stream) {
    const auto known = std::find_if(own_streams.begin(), own_streams.end(),
                                    [&](const auto& entry) { return entry.first == serial_; });
    if (known == own_streams.end())
        own_streams.emplace_back(serial_, stream);
    else
        known->second = stream;
}

Stream Devices::stream() const {
    for (const auto& [serial, stream] : own_streams)
        if (serial == serial_) return stream;
    return nullptr;
}

Queues& Devices::queues(const Driver& driver, const Place& place) {
    driver_ = &driver;
    const Context context = place.context ? place.context : primary_context(driver, place.device);
    std::unique_ptr<Queues>& queues = queues_[context];
    if (!queues) queues = std::make_unique<Queues>(driver, context, place.device);
    return *queues;
}

Queues& Devices::queues_of(Stream stream, Queues& usual) {
    if (is_default(stream)) return usual;
    Context context = nullptr;
    usual.driver().require(
        usual.driver().stream_get_context(stream, &context), "cuStreamGetCtx",
        "looking at the stream that was given to hkt_comm_set_stream: has it been destroyed?");
    return context == usual.context() ? usual : queues(usual.driver(), {context, usual.device()});
}

// Memory of a pool, or memory that the program mapped itself, has no context of its own.
Context Devices::primary_context(const Driver& driver, int device) {
    const auto known = primary_.find(device);
    if (known != primary_.end()) return known->second.context;
    Primary primary{};
    const std::string doing = fmt::format("taking the primary context of device {}", device);
    driver.require(driver.device_get(&primary.handle, device), "cuDeviceGet", doing);
    driver.require(driver.primary_context_retain(&primary.context, primary.handle),
                   "cuDevicePrimaryCtxRetain", doing);
    primary_[device] = primary;
    return primary.context;
}

}  // namespace hocket::device
