#include "runtime/device/copies.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace hocket::device {

Copies::~Copies() {
    if (!settle()) give_queue_back();
}

std::optional<DevicePointer> Copies::open(const Exported& exported) {
    const InContext here(queues_.driver(), queues_.context(), doing_);
    opened_.reserve(opened_.size() + 1);
    Mappings::Mapping* const mapping = queues_.mappings().open(exported, doing_);
    if (!mapping) return std::nullopt;
    opened_.push_back(mapping);
    return mapping->begin + exported.offset;
}

// Call within the context.
Stream Copies::stream() {
    if (!stream_) stream_ = queues_.take_stream(doing_);
    return stream_;
}

void Copies::post(DevicePointer to, DevicePointer from, std::uint64_t bytes) {
    const Driver& driver = queues_.driver();
    const InContext here(driver, queues_.context(), doing_);
    driver.require(driver.copy(to, from, bytes, stream()), "cuMemcpyAsync", doing_);
}

void Copies::clear(DevicePointer memory, std::uint64_t bytes) {
    const Driver& driver = queues_.driver();
    const InContext here(driver, queues_.context(), doing_);
    driver.require(driver.memory_set(memory, 0, bytes, stream()), "cuMemsetD8Async", doing_);
}

void Copies::upload(DevicePointer to, const std::byte* pinned, std::uint64_t bytes) {
    const Driver& driver = queues_.driver();
    const InContext here(driver, queues_.context(), doing_);
    driver.require(driver.copy_to_device(to, pinned, bytes, stream()), "cuMemcpyHtoDAsync", doing_);
}

void Copies::launch(const LoadedKernel& kernel, unsigned blocks, unsigned threads, DevicePointer argument) {
    const InContext here(queues_.driver(), queues_.context(), doing_);
    kernel.launch(stream(), blocks, threads, argument, doing_);
}

void Copies::fence() {
    const Driver& driver = queues_.driver();
    const InContext here(driver, queues_.context(), doing_);
    fences_.push_back(queues_.take_event(doing_));
    driver.require(driver.event_record(fences_.back(), stream()), "cuEventRecord", doing_);
}

std::uint64_t Copies::reached() {
    if (fences_.empty()) return reached_;
    const Driver& driver = queues_.driver();
    const InContext here(driver, queues_.context(), doing_);
    for (; !fences_.empty(); ++reached_) {
        const int result = driver.event_query(fences_.front());
        if (result == CUDA_ERROR_NOT_READY) break;
        driver.require(result, "cuEventQuery", doing_);
        queues_.give_back(fences_.front());
        fences_.pop_front();
    }
    return reached_;
}

void Copies::end() noexcept {
    for (Mappings::Mapping* mapping : opened_) queues_.mappings().give_back(*mapping);
    opened_.clear();
    give_queue_back();
}

void Copies::give_queue_back() noexcept {
    for (; !fences_.empty(); fences_.pop_front()) queues_.give_back(fences_.front());
    if (stream_) queues_.give_back(std::exchange(stream_, nullptr));
}

bool Copies::settle() noexcept {
    if (is_lost_) return false;
    if (stream_) try {
            const Driver& driver = queues_.driver();
            const InContext here(driver, queues_.context(), doing_);
            const auto until = std::chrono::steady_clock::now() + copies_end_within;
            while (driver.stream_query(stream_) == CUDA_ERROR_NOT_READY) {
                if (std::chrono::steady_clock::now() >= until) {
                    is_lost_ = true;
                    return false;
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        } catch (...) {  // the context is gone, and so are the copies
        }
    end();
    return true;
}

}  // namespace hocket::device
