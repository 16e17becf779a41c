#include "tools/tune/levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "dsl/prediction/costs.hpp"
#include "runtime/engine/job/link_probe.hpp"
#include "tools/bench/comm.hpp"
#include "tools/bench/memory.hpp"
#include "tools/bench/statistics.hpp"

namespace hocket::tune {
namespace {

using bench::check;
using Clock = std::chrono::steady_clock;

constexpr std::size_t small = 8, least_large = 256 << 10, most_large = 16 << 20;  // bytes each way
constexpr std::size_t step = 4;  // between the two sizes of which the difference counts
constexpr int small_exchanges = 100, repetitions = 5, most_in_a_row = 64;
constexpr double noticeably = 1.25;  // faster
constexpr double copy_touches = 2;   // bytes, for each that a copy moves: dsl::touched_bytes

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Two ranks that exchange messages as schedules do: by an all_gather in place.
class Pair {
  public:
    // color: of the pair among all pairs; -1: this rank is in none. Collective over comm.
    Pair(hkt_comm* comm, int color) {
        hkt_comm* made = nullptr;
        check(hkt_comm_split(comm, color < 0 ? HKT_NO_COLOR : color, 0, &made), comm, "no pair of ranks");
        group_.reset(made);
        if (!group_) return;
        bench::Options options;
        options.subject = HKT_ALL_GATHER;
        options.schedule = "ring";
        plan_ = bench::make_plan(made, options, HKT_UINT8, HKT_SUM, 0, HKT_EXECUTOR_DEFAULT);
        memory_ = bench::shared_memory(made)(2 * most_large).host;
        std::memset(memory_.get(), 0, 2 * most_large);  // touches its pages
    }

    // Returns the seconds of each of `times` exchanges of so many bytes each way; 0 for a rank without a
    // pair.
    double exchange(std::size_t bytes, int times) {
        const auto start = Clock::now();
        for (int i = 0; group_ && i < times; ++i)
            check(hkt_plan_start(plan_.get(), static_cast<char*>(memory_.get()) + own() * bytes,
                                 memory_.get(), bytes, nullptr),
                  group_.get(), "an exchange of two ranks failed");
        return group_ ? seconds_since(start) / times : 0;
    }

  private:
    std::size_t own() const { return static_cast<std::size_t>(hkt_comm_rank(group_.get())); }

    bench::Comm group_;
    bench::Plan plan_;
    std::shared_ptr<void> memory_;
};

class LevelMeter {
  public:
    // seconds: about, for this level.
    LevelMeter(hkt_comm* comm, const dsl::Topology& topology, int level, double seconds)
        : comm_(comm), topology_(topology), level_(level), seconds_(seconds), rank_(hkt_comm_rank(comm)) {
        const std::vector<int> sharing = dsl::sharing_levels(topology, level);
        for (dsl::Rank rank = 0; rank < topology.ranks(); ++rank)
            ends_[dsl::end_of(topology, sharing, rank)].push_back(rank);
    }

    LevelFigures measure() {
        LevelFigures figures;
        figures.alone = alone();
        std::vector<double> fastest(ends_.size());
        for (int round = 0; round < rounds(); ++round) {
            Pair pair(comm_, color(round));
            if (round == 0) figures.latency = highest(latency(pair));
            add_round(times(pair), fastest);
        }
        figures.ends = std::move(fastest);
        return figures;
    }

  private:
    int rounds() const { return engine::rounds_of(topology_.levels[level_].size); }

    // The pairs of a round are numbered by their lower ranks.
    int color(int round) const {
        const int own = topology_.coordinate(rank_, level_);
        const int partner = engine::partner_of(own, topology_.levels[level_].size, round);
        return partner < 0 ? -1 : rank_ + std::min(partner - own, 0) * topology_.stride(level_);
    }

    void barrier() { check(hkt_barrier(comm_), comm_, "barrier failed"); }

    double highest(double value) {
        bench::combine(comm_, &value, 1, HKT_FLOAT64, HKT_MAX, "collecting the figures failed");
        return value;
    }

    double alone() {
        const bool is_one = rank_ == 0 || rank_ == topology_.stride(level_);
        Pair pair(comm_, is_one ? 0 : -1);
        return highest(rate_of(times(pair)));
    }

    double latency(Pair& pair) {
        std::vector<double> times;
        for (int i = 0; i <= repetitions; ++i) {
            barrier();
            const double time = pair.exchange(small, small_exchanges);
            if (i > 0) times.push_back(time);  // the first warms up
        }
        return *std::min_element(times.begin(), times.end());
    }

    // Median times of exchanges of two sizes, in seconds.
    struct Times {
        double bytes = 0;  // of the larger; the other is a `step`-th
        double less = 0, more = 0;
    };

    Times times(Pair& pair) {
        const auto [large, count] = amount(pair);
        std::vector<double> of_less, of_more;
        for (int i = 0; i < repetitions; ++i) {
            barrier();
            of_less.push_back(pair.exchange(large / step, count));
            barrier();
            of_more.push_back(pair.exchange(large, count));
        }
        return {static_cast<double>(large), bench::median(of_less), bench::median(of_more)};
    }

    // Returns bytes per second each way, in memory those that a core touches.
    double rate_of(const Times& times) const {
        const double rate = engine::rate_between(times.bytes / step, times.less, times.bytes, times.more);
        return rate * (dsl::is_memory(topology_.levels[level_]) ? copy_touches : 1);
    }

    struct Amount {
        std::size_t bytes;
        int exchanges;
    };

    // Returns the size, and the number of exchanges in a row, with which repetitions take their share of the
    // time. Short times would be those of the kernel's turns where ranks share cores.
    Amount amount(Pair& pair) {
        const double share = seconds_ / (rounds() + 1) / repetitions / 2;
        for (std::size_t bytes = least_large;; bytes *= 2) {
            barrier();
            const double time = highest(pair.exchange(bytes, 1));
            if (bytes < most_large && 2 * time < share) continue;
            return {bytes, static_cast<int>(std::clamp(share / time, 1.0, double(most_in_a_row)))};
        }
    }

    // Raises the ends' rates to those of a round. An end of a link carries what all ranks that share it send
    // at once, until the last of them is done. In one of the rounds it meets an end that is as fast, unless
    // it is the fastest.
    void add_round(const Times& own, std::vector<double>& fastest) {
        std::vector<double> all(2 * static_cast<std::size_t>(hkt_comm_size(comm_)));
        const double mine[] = {own.less, own.more};
        check(hkt_all_gather(mine, all.data(), 2, HKT_FLOAT64, comm_, nullptr), comm_,
              "collecting the figures failed");
        std::size_t number = 0;
        for (const auto& [end, ranks] : ends_) {
            Times last{own.bytes * static_cast<double>(ranks.size()), 0, 0};
            for (const dsl::Rank rank : ranks) {
                last.less = std::max(last.less, all[2 * static_cast<std::size_t>(rank)]);
                last.more = std::max(last.more, all[2 * static_cast<std::size_t>(rank) + 1]);
            }
            fastest[number] = std::max(fastest[number], rate_of(last));
            ++number;
        }
    }

    hkt_comm* comm_;
    const dsl::Topology& topology_;
    const int level_;
    const double seconds_;
    const dsl::Rank rank_;
    std::map<dsl::Rank, std::vector<dsl::Rank>> ends_;  // of links: the ranks that share each, by the lowest
};

std::string rate_in_language(double rate) {
    return rate >= 1e9 ? fmt::format("{:.4g}GB/s", rate / 1e9) : fmt::format("{:.4g}MB/s", rate / 1e6);
}

}  // namespace

const char* name_of(dsl::Medium medium) {
    constexpr const char* media[] = {"memory", "fabric", "device"};
    return media[static_cast<std::size_t>(medium)];
}

double LevelFigures::slowest() const {
    return ends.empty() ? 0 : *std::min_element(ends.begin(), ends.end());
}

double LevelFigures::fastest() const {
    return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
}

std::vector<LevelFigures> measure_levels(hkt_comm* comm, const dsl::Topology& topology, double seconds) {
    for (const dsl::Level& level : topology.levels)
        if (!level.hosts.empty())
            throw std::runtime_error(fmt::format(
                "hosts of different numbers of ranks ({}) cannot be measured: leave HOCKET_TOPOLOGY "
                "unset, or start as many ranks on each host",
                topology.name));
    const auto levels = std::count_if(topology.levels.begin(), topology.levels.end(),
                                      [](const dsl::Level& level) { return level.size > 1; });
    std::vector<LevelFigures> figures(topology.levels.size());
    for (std::size_t level = 0; level < topology.levels.size(); ++level)
        if (topology.levels[level].size > 1)
            figures[level] =
                LevelMeter(comm, topology, static_cast<int>(level), seconds / static_cast<double>(levels))
                    .measure();
    return figures;
}

dsl::Topology with_figures(dsl::Topology topology, const std::vector<LevelFigures>& figures) {
    for (std::size_t i = 0; i < topology.levels.size(); ++i) {
        dsl::Level& level = topology.levels[i];
        if (level.size == 1) continue;
        level.latency = figures[i].latency;
        level.bandwidth = figures[i].slowest();
        level.cores = 0;  // the ranks shared them while they were measured
    }
    return topology;
}

std::string topology_text(const dsl::Topology& topology, const std::vector<std::string>& about) {
    std::string text;
    for (const std::string& line : about) text += fmt::format("# {}\n", line);
    text += "topology measured {\n";
    for (const dsl::Level& level : topology.levels)
        text += fmt::format("    level {}[{}] {{ medium {}  latency {:.4g}us  bandwidth {}{}{} }}\n",
                            level.name, level.size, name_of(level.medium), level.latency * 1e6,
                            rate_in_language(level.bandwidth),
                            level.shared_by.empty() ? "" : "  shared by " + level.shared_by,
                            level.nic.empty() ? "" : "  nic " + level.nic);
    return text + "}\n";
}

std::string network_text(const dsl::Topology& topology, const std::vector<LevelFigures>& figures) {
    std::string text;
    for (std::size_t i = 0; i < topology.levels.size(); ++i) {
        const LevelFigures& level = figures[i];
        if (dsl::is_memory(topology.levels[i]) || level.fastest() < noticeably * level.slowest()) continue;
        const std::vector<int> sharing = dsl::sharing_levels(topology, static_cast<int>(i));
        auto rate = level.ends.begin();
        for (dsl::Rank rank = 0; rank < topology.ranks(); ++rank)
            if (dsl::end_of(topology, sharing, rank) == rank)
                text +=
                    fmt::format("end {} {} {}\n", topology.levels[i].name, rank, rate_in_language(*rate++));
    }
    return text;
}

}  // namespace hocket::tune
