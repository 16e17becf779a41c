#include "capi/ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "capi/errors.hpp"

namespace hocket::capi {
namespace {

bool has_memory(const Range& range) {
    return range.begin != nullptr && range.count > 0;
}

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
}

[[noreturn]] void refuse_ranges(const char* function, const Range& written, const Range& other) {
    refuse(
        fmt::format("{}: {} ({} B from {}) and {} ({} B from {}) overlap: memory that is written must "
                    "overlap no other argument",
                    function, written.words(), written.count * written.size, written.begin, other.words(),
                    other.count * other.size, other.begin));
}

struct Placed {
    const Range* range;
    bool is_written;
};

// Ranges in the same place, for error texts.
struct Group {
    std::string where, names;
    std::size_t count = 0;
};

[[noreturn]] void refuse_several_places(const char* function, const std::vector<Range>& ranges,
                                        const std::vector<std::optional<device::Place>>& places) {
    constexpr std::size_t most_named = 8;
    std::map<int, std::set<device::Context>> contexts;  // of each device
    for (const auto& place : places)
        if (place && place->context) contexts[place->device].insert(place->context);
    std::vector<Group> groups;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (!has_memory(ranges[i])) continue;
        std::string where = "on the host";
        if (const auto& place = places[i]) {
            where = fmt::format("on device {}", place->device);
            if (place->context && contexts[place->device].size() > 1)
                where += fmt::format(" in context {}", static_cast<const void*>(place->context));
        }
        auto group =
            std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return one.where == where; });
        if (group == groups.end()) group = groups.insert(group, {where, "", 0});
        if (++group->count <= most_named) group->names += (group->count > 1 ? ", " : "") + ranges[i].words();
    }
    std::string text;
    for (const Group& group : groups) {
        text += fmt::format("{}{}", text.empty() ? "" : "; ", group.names);
        if (group.count > most_named) text += fmt::format(" and {} more", group.count - most_named);
        text += " " + group.where;
    }
    refuse(
        fmt::format("{}: its memory lies in several places: {}. All of it must be on the host, or all in "
                    "one context of one device",
                    function, text));
}

// Keeps the range that ends last.
void take_later(const Range*& so_far, const Range* range) {
    if (so_far == nullptr || range->end() > so_far->end()) so_far = range;
}

bool is_together(const device::Place& a, const device::Place& b) {
    return a.device == b.device && (!a.context || !b.context || a.context == b.context);
}

}  // namespace

std::optional<OnDevice> find_device(const char* function, const std::vector<Range>& ranges) {
    const device::Driver* driver = device::find_driver();
    if (driver == nullptr) return std::nullopt;
    std::vector<std::optional<device::Place>> places(ranges.size());
    const Range* first = nullptr;
    std::optional<device::Place> all;
    bool is_one = true;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (!has_memory(ranges[i])) continue;
        const auto& place = places[i] = device::place_of(*driver, ranges[i].begin, ranges[i].words().c_str());
        if (first == nullptr) first = &ranges[i], all = place;
        is_one = is_one && place.has_value() == all.has_value() && (!place || is_together(*place, *all));
        if (place && place->context && all && !all->context) all = place;
    }
    if (!is_one) refuse_several_places(function, ranges, places);
    if (!all) return std::nullopt;
    return OnDevice{
        driver, *all,
        fmt::format("{} with {} ({}) on device {}", function, first->words(), first->begin, all->device)};
}

void refuse_device(const char* function, const std::string& name, const void* memory, const char* advice) {
    const device::Driver* driver = device::find_driver();
    if (driver == nullptr) return;
    if (const auto place = device::place_of(*driver, memory, name.c_str()))
        refuse(fmt::format("{}: {} ({}) is memory of device {}, and is read on the host: {}", function, name,
                           memory, place->device, advice));
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
    // In the order of addresses, a range overlaps an earlier one if and only if it overlaps the earlier one
    // that ends last.
    std::stable_sort(placed.begin(), placed.end(),
                     [](const Placed& a, const Placed& b) { return a.range->first() < b.range->first(); });
    const Range *last_written = nullptr, *last_read = nullptr;
    for (const auto& [range, is_written] : placed) {
        if (last_written != nullptr && last_written->end() > range->first())
            refuse_ranges(function, *last_written, *range);
        if (is_written && last_read != nullptr && last_read->end() > range->first())
            refuse_ranges(function, *range, *last_read);
        take_later(is_written ? last_written : last_read, range);
    }
}

}  // namespace hocket::capi
