#include "dsl/graph/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

Rank Topology::ranks() const {
    return stride(static_cast<int>(levels.size()));
}

Rank Topology::stride(int level) const {
    Rank result = 1;
    for (int i = 0; i < level; ++i) result *= levels[i].size;
    return result;
}

Topology flat_topology(Rank ranks) {
    Topology result;
    result.name = std::to_string(ranks);
    result.levels.push_back({.name = "world", .size = ranks});
    return result;
}

namespace {

// Captures the size, then `m` and cores, or `h`, rate, prefix and unit.
const std::regex short_level(
    "([0-9]{1,7})(?:(m)(?:/([0-9]{1,6}))?|(h)(?:@([0-9]{1,15}(?:[.][0-9]{1,9})?)([kMGT]?)([bB])/s)?)?");

// Returns the rate in whole bytes per second.
double rate_of(const std::smatch& level) {
    const std::string number = level[5], prefix = level[6];
    double rate = 0;
    std::from_chars(number.data(), number.data() + number.size(), rate);
    if (!prefix.empty()) rate *= std::pow(1000, 1 + std::string("kMGT").find(prefix));
    return std::round(level[7] == "b" ? rate / 8 : rate);
}

Level level_of(const std::smatch& text, std::size_t place) {
    Level level;
    level.name = fmt::format("l{}", place);
    level.size = static_cast<Rank>(std::stol(text[1]));
    if (text[2].matched) {
        level = {.name = "local", .size = level.size, .medium = Medium::memory};
        level.latency = memory_latency;
        level.bandwidth = memory_bandwidth;
        if (text[3].matched) level.cores = static_cast<Rank>(std::stol(text[3]));
        if (text[3].matched && level.cores == 0)
            throw DiagnosticError(Span(), fmt::format("topology level {}: no cores", text.str()),
                                  "a host has at least one: 4m/2 are 4 ranks on 2 cores");
    } else if (text[4].matched) {
        level = {.name = "host", .size = level.size};
        level.latency = fabric_latency;
        level.bandwidth = text[5].matched ? rate_of(text) : fabric_bandwidth;
        if (level.bandwidth == 0)
            throw DiagnosticError(Span(), fmt::format("topology level {}: a rate of nothing", text.str()),
                                  "a rate is at least 1B/s: 3h@1Gb/s");
    }
    return level;
}

}  // namespace

Topology grid_topology(const std::string& text) {
    Topology result;
    if (text.size() > 200) return {};  // std::regex recurses over the text
    std::int64_t ranks = 1;
    std::string local;
    for (std::size_t begin = 0, end = 0; end < text.size(); begin = end + 1) {
        end = std::min(text.find('x', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        std::smatch match;
        if (!std::regex_match(part, match, short_level)) return {};
        Level level = level_of(match, result.levels.size());
        ranks *= level.size;
        if (level.size < 1 || ranks > most_ranks || result.levels.size() == most_levels)
            throw DiagnosticError(
                Span(), fmt::format("topology {}: a level has at least 1 rank, a topology at most {}", text,
                                    most_ranks));
        const auto same = [&](const Level& other) { return other.name == level.name; };
        if (std::any_of(result.levels.begin(), result.levels.end(), same))
            level.name += std::to_string(result.levels.size());
        if (level.medium == Medium::memory) local = level.name;
        result.levels.push_back(std::move(level));
    }
    // All ranks of a host share its links.
    for (Level& level : result.levels)
        if (level.name.starts_with("host")) level.shared_by = local;
    result.name = text;
    return result;
}

Topology host_topology(Rank local, Rank hosts, Rank cores, double rate) {
    std::string text;
    if (local > 1 || hosts == 1)
        text = fmt::format("{}m{}", local, cores > 0 ? fmt::format("/{}", cores) : "");
    if (hosts > 1) {
        text += fmt::format("{}{}h", text.empty() ? "" : "x", hosts);
        if (rate != fabric_bandwidth) text += fmt::format("@{}MB/s", std::round(rate) / 1e6);
    }
    return grid_topology(text);
}

Group make_group(const Topology& topology, std::vector<int> levels) {
    std::sort(levels.begin(), levels.end());
    Group group{std::move(levels), 1};
    for (const int level : group.levels) group.size *= topology.levels[level].size;
    return group;
}

Group world_group(const Topology& topology) {
    std::vector<int> levels(topology.levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<int>(i);
    return make_group(topology, std::move(levels));
}

std::string name_of(const Topology& topology, const Group& group) {
    if (group.levels.size() == topology.levels.size() && group.levels.size() > 1) return "world";
    std::string result;
    for (const int level : group.levels) result += (result.empty() ? "" : ", ") + topology.levels[level].name;
    return group.levels.size() == 1 ? result : "(" + result + ")";
}

std::vector<Rank> members_of(const Topology& topology, const Group& group, Rank rank) {
    Rank base = rank;
    for (const int level : group.levels) base -= topology.coordinate(rank, level) * topology.stride(level);
    std::vector<Rank> members{base};
    for (const int level : group.levels) {
        const std::size_t inner = members.size();
        for (Rank c = 1; c < topology.levels[level].size; ++c)
            for (std::size_t i = 0; i < inner; ++i)
                members.push_back(members[i] + c * topology.stride(level));
    }
    return members;
}

}  // namespace hocket::dsl
