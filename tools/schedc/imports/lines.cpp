#include "tools/schedc/imports/lines.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace hocket::tools::imports {
namespace {

// Lines that differ in nothing but chunks and parts.
auto way_of(const Line& line) {
    return std::tuple(line.from, line.to, line.combines, line.source_in_second, line.target_in_second);
}

auto key_of(const Line& line) {
    return std::tuple(way_of(line), line.part, line.source - line.target, line.source);
}

bool is_same_step(const Line& a, const Line& b) {
    return a.sender == b.sender && a.receiver == b.receiver;
}

std::vector<Line> split(const Round& round, const Slots& slots, const Division& division) {
    std::vector<Line> lines;
    for (const Transfer& transfer : round) {
        Line line;
        line.from = transfer.from, line.to = transfer.to, line.combines = transfer.combines;
        line.source_in_second = slots.in_second(transfer.source);
        line.target_in_second = slots.in_second(transfer.target);
        const int source = slots.chunk_of(transfer.source), target = slots.chunk_of(transfer.target);
        line.part = division.parts == 1 ? whole : division.part_of(source);
        line.source = division.chunk_of(source), line.target = division.chunk_of(target);
        line.sender = transfer.sender, line.receiver = transfer.receiver;
        line.has_more = transfer.has_more;
        lines.push_back(line);
    }
    return lines;
}

}  // namespace

std::vector<Line> chunk_lines(const Round& round, const Slots& slots, const Division& division) {
    std::vector<Line> lines = split(round, slots, division);
    if (division.parts == 1) return lines;
    // The parts of a chunk that go from one chunk to the same other one, together.
    std::map<std::tuple<decltype(way_of(lines[0])), int, int>, std::vector<Line>> together;
    for (const Line& line : lines) together[{way_of(line), line.source, line.target}].push_back(line);
    lines.clear();
    for (auto& [way, parts] : together) {
        std::ranges::stable_sort(parts, {}, &Line::part);
        std::set<int> distinct;
        for (const Line& part : parts) distinct.insert(part.part);
        if (static_cast<int>(distinct.size()) < division.parts || distinct.size() != parts.size()) {
            lines.insert(lines.end(), parts.begin(), parts.end());
            continue;
        }
        Line all = parts[0];
        all.part = whole;
        all.has_more = !std::ranges::all_of(
            parts, [&](const Line& part) { return is_same_step(part, all) && !part.has_more; });
        lines.push_back(all);
    }
    return lines;
}

std::vector<Line> merged(std::vector<Line> lines, const Division& division) {
    std::ranges::stable_sort(lines, {}, key_of);
    std::vector<Line> result;
    for (const Line& line : lines) {
        Line* before = result.empty() ? nullptr : &result.back();
        const bool goes_on = before && way_of(*before) == way_of(line) && before->part == line.part &&
                             before->source + before->length == line.source &&
                             before->target + before->length == line.target && !division.is_whole_divided;
        if (!goes_on) {
            result.push_back(line);
            continue;
        }
        before->length += line.length;
        before->has_more = before->has_more || line.has_more || !is_same_step(*before, line);
    }
    // In the order of the file's threadblocks.
    std::ranges::stable_sort(result, {}, &Line::sender);
    return result;
}

std::optional<std::vector<Line>> alike(const std::vector<Line>& lines, const Division& division) {
    if (lines.size() % static_cast<std::size_t>(division.ranks) != 0 || division.ranks < 2)
        return std::nullopt;
    struct Alike {
        Line first;
        std::set<int> senders;
    };
    std::map<std::tuple<decltype(key_of(lines[0])), int>, Alike> seen;
    for (const Line& line : lines) {
        Line relative = line;
        const auto less = [&](int number) { return (number - line.from + division.ranks) % division.ranks; };
        relative.from = 0;
        relative.to = less(line.to);
        if (!division.is_whole_divided)
            relative.source = less(line.source), relative.target = less(line.target);
        Alike& found =
            seen.try_emplace({key_of(relative), relative.target}, Alike{relative, {}}).first->second;
        if (!found.senders.insert(line.from).second) return std::nullopt;  // twice
        if (line.from == 0) found.first = relative;
    }
    std::vector<Line> result;
    for (const auto& [key, line] : seen) {
        if (static_cast<int>(line.senders.size()) != division.ranks) return std::nullopt;
        result.push_back(line.first);
    }
    return merged(std::move(result), division);
}

}  // namespace hocket::tools::imports
