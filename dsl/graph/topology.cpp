#include "dsl/graph/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"

namespace hocket::dsl {

Rank Topology::ranks() const {
    return stride(static_cast<int>(levels.size()));
}

Rank Topology::stride(int level) const {
    Rank result = 1;
    for (int i = 0; i < level; ++i) result *= levels[i].size;
    return result;
}

std::vector<std::string> nics_with(const Topology& topology, Rank rank) {
    const auto has_nic = [](const Level& level) { return !level.nic.empty(); };
    if (std::none_of(topology.levels.begin(), topology.levels.end(), has_nic)) return {};
    std::vector<std::string> nics(static_cast<std::size_t>(topology.ranks()));
    for (Rank other = 0; other < topology.ranks(); ++other)
        for (int level = 0; level < static_cast<int>(topology.levels.size()); ++level)
            if (topology.coordinate(rank, level) != topology.coordinate(other, level))
                nics[static_cast<std::size_t>(other)] = topology.levels[level].nic;
    return nics;
}

Topology flat_topology(Rank ranks) {
    Topology result;
    result.name = std::to_string(ranks);
    result.levels.push_back({.name = "world", .size = ranks});
    return result;
}

namespace {

constexpr const char* short_hint =
    "levels are like 4, 4m (in memory), 4m/2 (on 2 cores), 2h (hosts) or 2h@10Gb/s, joined by x";

// Reads one level of a short form.
class ShortLevel {
  public:
    explicit ShortLevel(Span span) : span_(span) {}

    Level read(std::size_t place) {
        Level level;
        level.name = fmt::format("l{}", place);
        level.size = number("ranks");
        std::vector<Rank> hosts = {level.size};
        while (take('+')) {
            hosts.push_back(number("ranks"));
            if (hosts.back() > most_ranks - level.size)
                throw DiagnosticError(span_, fmt::format("a topology has at most {} ranks", most_ranks),
                                      short_hint);
            level.size += hosts.back();
        }
        const bool is_divided = hosts.size() > 1;
        if (is_divided && !left().starts_with('h'))
            throw DiagnosticError(span_,
                                  "ranks are joined by '+' only where hosts have different numbers of them",
                                  "hosts of 3 and 2 ranks: 3+2h");
        if (take('m')) {
            level = {.name = "local", .size = level.size, .medium = Medium::memory};
            level.latency = memory_latency;
            level.bandwidth = memory_bandwidth;
            if (take('/')) level.cores = number("cores");
        } else if (take('h')) {
            level = {.name = "host", .size = level.size};
            if (is_divided) level.hosts = std::move(hosts);
            level.latency = fabric_latency;
            level.bandwidth = fabric_bandwidth;
            if (take('@')) {
                level.bandwidth = rate();
                if (take(',')) level.latency = latency();
            }
        }
        if (!left().empty()) refuse_rest(level);
        return level;
    }

  private:
    std::string_view left() const { return span_.text(); }

    bool take(char c) {
        if (!left().starts_with(c)) return false;
        ++span_.begin;
        return true;
    }

    Rank number(const char* of_what) {
        Rank number = 0;
        const std::string_view text = left();
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc::invalid_argument || number < 0)
            throw DiagnosticError(span_, fmt::format("the number of {} is missing here", of_what),
                                  short_hint);
        const Span digits{span_.file, span_.begin,
                          span_.begin + static_cast<std::uint32_t>(end - text.data())};
        if (error != std::errc() || number == 0 || number > most_ranks)
            throw DiagnosticError(digits, fmt::format("a level has 1 to {} {}", most_ranks, of_what),
                                  short_hint);
        span_.begin = digits.end;
        return number;
    }

    double latency() {
        const double latency = quantity_at(span_, parse_time);
        span_.begin = span_.end;
        return latency;
    }

    // In whole bytes a second.
    double rate() {
        const Span whole{span_.file, span_.begin,
                         span_.begin + static_cast<std::uint32_t>(std::min(left().find(','), left().size()))};
        const double rate = std::round(quantity_at(whole, parse_rate));
        if (rate < 1) throw DiagnosticError(whole, "a rate here is at least 1B/s", short_hint);
        span_.begin = whole.end;
        return rate;
    }

    [[noreturn]] void refuse_rest(const Level& level) const {
        const char next = left()[0];
        if (next == ',' && level.name != "host")
            throw DiagnosticError(span_, "levels are joined by 'x'", short_hint);
        if (next == ',')
            throw DiagnosticError(span_, "only a level of hosts with a rate takes a latency",
                                  "8h@100Gb/s,5us; or in a file: level host[8] { medium fabric latency 5us "
                                  "bandwidth 100Gb/s }");
        if (next == '@') throw DiagnosticError(span_, "only a level of hosts takes a rate here", short_hint);
        if (next == '/' && level.medium != Medium::memory)
            throw DiagnosticError(span_, "only a level in memory takes a number of cores", short_hint);
        throw DiagnosticError(span_, fmt::format("'{}' is no kind of level", left()), short_hint);
    }

    Span span_;  // what is left to read
};

}  // namespace

Topology grid_topology(const std::string& text) {
    Topology result;
    if (text.empty() || text[0] < '0' || text[0] > '9' || text.find(".sched") != std::string::npos) return {};
    const SourceFile file{"<topology>", text};
    std::int64_t ranks = 1;
    std::string local;
    for (std::size_t begin = 0, end = 0; end < text.size(); begin = end + 1) {
        end = std::min(text.find('x', begin), text.size());
        const Span part{&file, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
        Level level = ShortLevel(part).read(result.levels.size());
        ranks *= level.size;
        if (ranks > most_ranks || result.levels.size() == most_levels)
            throw DiagnosticError(
                part, fmt::format("a topology has at most {} ranks, in {} levels", most_ranks, most_levels));
        const auto same = [&](const Level& other) { return other.name == level.name; };
        if (std::any_of(result.levels.begin(), result.levels.end(), same))
            level.name += std::to_string(result.levels.size());
        if (level.medium == Medium::memory) local = level.name;
        result.levels.push_back(std::move(level));
        const auto is_divided = [](const Level& some) { return !some.hosts.empty(); };
        if (result.levels.size() > 1 && std::any_of(result.levels.begin(), result.levels.end(), is_divided))
            throw DiagnosticError(part, "hosts of different numbers of ranks are the only level", short_hint);
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
