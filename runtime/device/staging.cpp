#include "runtime/device/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hocket::device {
namespace {

// Chunks are so large that the cost of each call is small beside its copy, and so small that the first
// arrives soon.
constexpr std::uint64_t smallest_chunk = 256 * 1024, largest_chunk = 4 << 20, chunks_of_a_start = 64;

}  // namespace

std::uint64_t StagedBuffer::bytes() const {
    std::uint64_t end = 0;
    for (const Stretch& stretch : stretches) end = std::max(end, stretch.end);
    return end;
}

std::unique_ptr<Staging> Staging::begin(const Buffers& buffers, std::optional<StagedBuffer> input,
                                        std::optional<StagedBuffer> output,
                                        std::vector<StagedBuffer> further) {
    std::unique_ptr<Staging> staging(new Staging(buffers));
    const std::uint64_t input_bytes = input ? input->bytes() : 0, output_bytes = output ? output->bytes() : 0;
    staging->further_.resize(further.size());
    staging->loans_.reserve(2 + further.size());
    if (input_bytes > 0) staging->take(staging->input_, buffers.devices, *input, "to the host");
    if (output_bytes > 0) staging->take(staging->output_, buffers.devices, *output, "from the host");
    staging->take_memory(input_bytes, output_bytes);
    for (std::size_t i = 0; i < further.size(); ++i) {
        Side& side = staging->further_[i];
        const std::uint64_t bytes = further[i].bytes();
        staging->take(side, buffers.devices, further[i], "to the host");
        side.host = staging->take_block(side, bytes);
    }
    staging->for_inputs([&](const Side& side) { staging->follow_stream(side); });
    if (output_bytes > 0) staging->follow_stream(staging->output_);
    staging->for_inputs([&](Side& side) { staging->copy_input(side); });
    return staging;
}

// Calls call(side) for each input that is staged.
template <typename Call>
void Staging::for_inputs(Call call) {
    if (input_.is_staged()) call(input_);
    for (Side& side : further_)
        if (side.is_staged()) call(side);
}

Staging::~Staging() {
    try {
        // Even after a failure, the caller's next work on the stream must follow the copies that are under
        // way.
        if (is_waiting() || has_copied_output_) hand_over();
    } catch (...) {
    }
    const auto give_back = [&](Side& side) {
        if (side.is_waiting()) loan_of(side.host).is_lost = true;
        for (std::size_t i = side.come; i < side.chunks.size(); ++i)
            side.queues->give_back(side.chunks[i].come);
        if (side.copies) side.queues->give_back(side.copies);
    };
    give_back(input_);
    give_back(output_);
    for (Side& side : further_) give_back(side);
    for (Loan& loan : loans_) {
        if (!loan.is_lost) {
            loan.queues->give_back(loan.block, std::move(loan.fences));
            continue;
        }
        for (const Event fence : loan.fences) loan.queues->give_back(fence);
        loan.queues->set_aside(loan.block);
    }
}

void Staging::take(Side& side, Devices& devices, StagedBuffer& buffer, const char* verb) const {
    side.doing =
        fmt::format("copying {} ({} on device {}) {}", buffer.name, buffer.memory, buffer.place.device, verb);
    side.stretches = std::move(buffer.stretches);
    side.behind = buffer.behind;
    side.device = static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(buffer.memory));
    side.queues = &devices.queues(driver_, buffer.place);
    const InContext here(driver_, side.queues->context(), side.doing);
    side.callers = &devices.queues_of(stream_, *side.queues);
    side.copies = side.queues->take_stream(side.doing);
}

std::byte* Staging::take_block(const Side& side, std::uint64_t bytes) {
    const InContext here(driver_, side.queues->context(), side.doing);
    const std::string doing = fmt::format("taking {} bytes of pinned memory for {}", bytes, side.doing);
    loans_.push_back({side.queues, side.queues->take_block(bytes, doing), {}});
    return loans_.back().block.begin;
}

void Staging::take_memory(std::uint64_t input_bytes, std::uint64_t output_bytes) {
    const DevicePointer from = input_.device, to = output_.device;
    const bool both = input_bytes > 0 && output_bytes > 0;
    if (both && from < to + output_bytes && to < from + input_bytes) {
        const DevicePointer begin = std::min(from, to), end = std::max(from + input_bytes, to + output_bytes);
        std::byte* const memory = take_block(output_, end - begin);
        input_.host = memory + (from - begin);
        output_.host = memory + (to - begin);
        return;
    }
    if (input_bytes > 0) input_.host = take_block(input_, input_bytes);
    if (output_bytes > 0) output_.host = take_block(output_, output_bytes);
}

// Copies of both directions follow the work on the caller's stream, which may still write the inputs and read
// the output.
void Staging::follow_stream(const Side& side) const {
    const std::string doing = "waiting on the device for the caller's stream before " + side.doing;
    std::optional<StreamPoint> now;
    if (!side.behind) now.emplace(*side.callers, stream_, doing);
    const InContext here(driver_, side.queues->context(), doing);
    (side.behind ? *side.behind : *now).hold_back(side.copies);
}

// ---- From the device ----------------------------------------------------------------------------

// Stretches that follow one another are copied together, up to a chunk.
void Staging::copy_input(Side& side) {
    std::uint64_t bytes = 0;
    for (const Stretch& stretch : side.stretches) bytes += stretch.end - stretch.begin;
    const std::uint64_t most = std::clamp(bytes / chunks_of_a_start, smallest_chunk, largest_chunk);
    const InContext here(driver_, side.queues->context(), side.doing);
    Stretch next{0, 0};
    const auto copy_next = [&] {
        for (; next.begin < next.end; next.begin += std::min(most, next.end - next.begin))
            copy_chunk(side, next.begin, std::min(next.end, next.begin + most));
    };
    for (const Stretch& stretch : side.stretches) {
        if (stretch.begin == next.end && stretch.end - next.begin <= most) {
            next.end = stretch.end;
            continue;
        }
        copy_next();
        next = stretch;
    }
    copy_next();
}

void Staging::copy_chunk(Side& side, std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    if (side.chunks.size() == side.chunks.capacity()) side.chunks.reserve(2 * side.chunks.size() + 16);
    const Event come = side.queues->take_event(side.doing);
    Loan& loan = loan_of(side.host);
    loan.is_lost = true;
    const int copied = driver_.copy_to_host(side.host + begin, side.device + begin, end - begin, side.copies);
    const int recorded = copied == CUDA_SUCCESS ? driver_.event_record(come, side.copies) : CUDA_SUCCESS;
    if (copied != CUDA_SUCCESS || recorded != CUDA_SUCCESS) side.queues->give_back(come);
    driver_.require(copied, "cuMemcpyDtoHAsync", fmt::format("{}, bytes {} to {}", side.doing, begin, end));
    driver_.require(recorded, "cuEventRecord", side.doing);
    loan.is_lost = false;
    side.chunks.push_back({side.host + begin, end - begin, come});
}

bool Staging::has_come(const std::byte* begin, std::uint64_t bytes) {
    bool all = true;
    for_inputs([&](Side& side) { all = all && has_come(side, begin, bytes); });
    return all;
}

bool Staging::has_come(Side& side, const std::byte* begin, std::uint64_t bytes) const {
    const auto is_there = [&] {
        return std::none_of(side.chunks.begin() + static_cast<std::ptrdiff_t>(side.come), side.chunks.end(),
                            [&](const Chunk& chunk) {
                                return begin < chunk.begin + chunk.bytes && chunk.begin < begin + bytes;
                            });
    };
    if (is_there()) return true;
    look(side);
    return is_there();
}

bool Staging::further_has_come() {
    for (Side& side : further_)
        if (side.is_waiting()) look(side);
    return std::ranges::none_of(further_, &Side::is_waiting);
}

// Counts the chunks that have arrived.
void Staging::look(Side& side) const {
    const InContext here(driver_, side.queues->context(), side.doing);
    for (; side.is_waiting(); ++side.come) {
        const int result = driver_.event_query(side.chunks[side.come].come);
        if (result == CUDA_ERROR_NOT_READY) break;
        driver_.require(result, "cuEventQuery", side.doing);
        side.queues->give_back(side.chunks[side.come].come);
    }
}

std::string Staging::awaited() {
    std::string text;
    for_inputs([&](const Side& side) {
        if (text.empty() && side.is_waiting())
            text = fmt::format(
                "{}: {} of {} pieces have come, and the others wait for work that was on the caller's stream "
                "before",
                side.doing, side.come, side.chunks.size());
    });
    return text;
}

// ---- To the device ------------------------------------------------------------------------------

void Staging::finished(const std::byte* begin, std::uint64_t bytes) {
    if (!output_.is_staged()) return;
    const auto first = static_cast<std::uint64_t>(begin - output_.host);
    auto pending = std::find_if(pending_.begin(), pending_.end(),
                                [&](const Stretch& stretch) { return stretch.end == first; });
    if (pending == pending_.end()) pending = pending_.insert(pending_.end(), {first, first});
    pending->end += bytes;
    if (pending->end - pending->begin < smallest_chunk) return;
    const InContext here(driver_, output_.queues->context(), output_.doing);
    copy_to_device(std::exchange(*pending, {pending->end, pending->end}));
}

// The gaps between the stretches of an output are not Hocket's to write.
void Staging::copy_to_device(Stretch final) {
    for (const Stretch& stretch : output_.stretches) {
        const std::uint64_t begin = std::max(final.begin, stretch.begin),
                            end = std::min(final.end, stretch.end);
        if (begin < end) copy_to_device(begin, end);
    }
}

void Staging::copy_to_device(std::uint64_t begin, std::uint64_t end) {
    loan_of(output_.host).is_lost = true;  // until there is a fence
    has_copied_output_ = true;
    driver_.require(
        driver_.copy_to_device(output_.device + begin, output_.host + begin, end - begin, output_.copies),
        "cuMemcpyHtoDAsync", fmt::format("{}, bytes {} to {}", output_.doing, begin, end));
}

void Staging::hand_over() {
    if (output_.is_staged()) hand_over_output();
    for_inputs([&](Side& side) {
        if (side.is_waiting()) hand_over_rest(side);
    });
}

void Staging::hand_over_output() {
    const InContext here(driver_, output_.queues->context(), output_.doing);
    for (Stretch& pending : pending_) copy_to_device(std::exchange(pending, {0, 0}));
    if (!has_copied_output_) return;
    Loan& loan = loan_of(output_.host);
    loan.fences.reserve(2);
    const Event end = output_.queues->take_event(output_.doing);
    loan.fences.push_back(end);
    driver_.require(driver_.event_record(end, output_.copies), "cuEventRecord", output_.doing);
    loan.is_lost = has_copied_output_ = false;
    order_behind(output_, end);
}

// Some of an input may not have been needed.
void Staging::hand_over_rest(Side& input) {
    const Event end = input.chunks.back().come;
    for (; input.come + 1 < input.chunks.size(); ++input.come)
        input.queues->give_back(input.chunks[input.come].come);
    loan_of(input.host).fences.push_back(end);
    ++input.come;
    order_behind(input, end);
}

void Staging::order_behind(const Side& side, Event copies) {
    const InContext there(driver_, side.callers->context(), side.doing);
    driver_.require(driver_.stream_wait_event(stream_, copies, 0), "cuStreamWaitEvent", side.doing);
}

Staging::Loan& Staging::loan_of(const std::byte* memory) {
    const auto holds = [&](const Loan& loan) {
        return loan.block.begin <= memory && memory < loan.block.begin + loan.block.bytes;
    };
    return *std::find_if(loans_.begin(), loans_.end(), holds);
}

}  // namespace hocket::device
