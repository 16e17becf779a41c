#include "runtime/compute/jit/interface/device_plan.hpp"

#include <algorithm>

namespace hocket::jit {

namespace {

void add_numbers(std::vector<std::uint32_t>& numbers, const DeviceStep& step) {
    switch (step.kind) {
        case DeviceStep::Kind::elements:
            numbers.insert(numbers.end(), step.areas.begin(), step.areas.end());
            numbers.insert(numbers.end(), {step.begin, step.end});
            return;
        case DeviceStep::Kind::await:
            numbers.insert(numbers.end(), {step.peer, step.message, step.operation});
            return;
        case DeviceStep::Kind::pull:
            numbers.insert(numbers.end(), {step.peer, step.operation});
            return;
        case DeviceStep::Kind::signal:
        case DeviceStep::Kind::push:
            return;
    }
}

void forget_numbers(DeviceStep& step) {
    std::ranges::fill(step.areas, 0);
    step.begin = step.end = step.peer = step.operation = 0;
    if (step.kind == DeviceStep::Kind::await) step.message = 0;
}

}  // namespace

std::vector<std::uint32_t> numbers_of(const DeviceShape& shape) {
    std::vector<std::uint32_t> numbers;
    for (const DeviceStep& step : shape.packet_steps) add_numbers(numbers, step);
    for (const DeviceStep& step : shape.steps) add_numbers(numbers, step);
    return numbers;
}

DeviceShape without_numbers(DeviceShape shape) {
    for (DeviceStep& step : shape.packet_steps) forget_numbers(step);
    for (DeviceStep& step : shape.steps) forget_numbers(step);
    return shape;
}

std::vector<std::uint64_t> stretches_of(const std::vector<std::uint64_t>& boundaries, std::uint64_t stripes) {
    constexpr std::uint64_t unit = 16;  // the widest access
    std::vector<std::uint64_t> stretches;
    for (std::size_t i = 1; i < boundaries.size(); ++i) {
        const std::uint64_t bytes = boundaries[i] - boundaries[i - 1];
        stretches.push_back(((bytes + stripes - 1) / stripes + unit - 1) / unit * unit);
    }
    return stretches;
}

}  // namespace hocket::jit
