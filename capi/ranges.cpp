#include "capi/ranges.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capi/errors.hpp"
#include "runtime/device/devices.hpp"

namespace hocket::capi {
namespace {

void check_alone(const char* function, const Range& range) {
    if (range.count == 0) return;
    if (range.begin == nullptr)
        refuse(
            fmt::format("{}: {} is null, but has to have {} element{}: pass their address, or a count of 0",
                        function, range.words(), range.count, range.count == 1 ? "" : "s"));
    if (range.count > (SIZE_MAX - range.first()) / range.size)
        refuse(fmt::format("{}: {} has {} elements of {} B, which is more than memory has", function,
                           range.words(), range.count, range.size));
    if (range.first() % range.size != 0)
        refuse(fmt::format("{}: {} is {}, which is not a multiple of {}, the bytes of an element: align it",
                           function, range.words(), range.begin, range.size));
    refuse_device(function, range.words(), range.begin);
}

[[noreturn]] void refuse_overlap(const char* function, const Range& written, const Range& other) {
    refuse(
        fmt::format("{}: {} ({} B from {}) and {} ({} B from {}) overlap: what is written must have memory "
                    "of its own",
                    function, written.words(), written.count * written.size, written.begin, other.words(),
                    other.count * other.size, other.begin));
}

struct Placed {
    const Range* range;
    bool is_written;
};

// The one that ends last.
void take_later(const Range*& so_far, const Range* range) {
    if (so_far == nullptr || range->end() > so_far->end()) so_far = range;
}

}  // namespace

void refuse_device(const char* function, const std::string& name, const void* memory) {
    const device::Driver* driver = device::find_driver();
    if (driver == nullptr) return;
    if (const auto place = device::place_of(*driver, memory, name.c_str()))
        refuse(
            fmt::format("{}: {} ({}) is memory of device {}, and this function works on the host's "
                        "memory: copy it to the host first",
                        function, name, memory, place->device));
}

std::string Range::words() const {
    return index == alone ? name : fmt::format("{}[{}]", name, index);
}

void check_ranges(const char* function, const std::vector<Range>& written, const std::vector<Range>& read) {
    std::vector<Placed> placed;
    placed.reserve(written.size() + read.size());
    for (const auto* ranges : {&written, &read})
        for (const Range& range : *ranges) {
            check_alone(function, range);
            if (range.count > 0) placed.push_back({&range, ranges == &written});
        }
    // In the order of their addresses, a range overlaps an earlier one if and only if it overlaps the one
    // that ends last.
    std::stable_sort(placed.begin(), placed.end(),
                     [](const Placed& a, const Placed& b) { return a.range->first() < b.range->first(); });
    const Range *last_written = nullptr, *last_read = nullptr;
    for (const auto& [range, is_written] : placed) {
        if (last_written != nullptr && last_written->end() > range->first())
            refuse_overlap(function, *last_written, *range);
        if (is_written && last_read != nullptr && last_read->end() > range->first())
            refuse_overlap(function, *range, *last_read);
        take_later(is_written ? last_written : last_read, range);
    }
}

}  // namespace hocket::capi
