#include "runtime/overlap/measured.hpp"

#include <algorithm>

namespace hocket::overlap {
namespace {

double seconds_of(Nanoseconds time) {
    return static_cast<double>(std::max<Nanoseconds>(time, 0)) * 1e-9;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

template <typename Value>
double median_of(std::span<const IterationTimes> iterations, const Value& value) {
    std::vector<double> values;
    for (const IterationTimes& iteration : iterations) values.push_back(value(iteration));
    return median(std::move(values));
}

struct Busy {
    std::size_t batches = 0;
    std::uint64_t bytes = 0;
    Nanoseconds begin = 0, end = 0;
};

// The times in which batches were on their way, in the order in which they ran: the last batch first. One
// that is handed over up to `early` before the others have ended is behind a pause, which its latency makes.
std::vector<Busy> busy_times(const IterationTimes& iteration, Nanoseconds early) {
    std::vector<Busy> all;
    for (auto moved = iteration.moved.rbegin(); moved != iteration.moved.rend(); ++moved) {
        if (moved->bytes == 0) continue;
        if (all.empty() || moved->handed + early >= all.back().end) all.push_back({0, 0, moved->handed, 0});
        Busy& busy = all.back();
        ++busy.batches;
        busy.bytes += moved->bytes;
        busy.end = std::max(busy.end, moved->ended);
    }
    return all;
}

CostLine cost_line_of(std::span<const IterationTimes> iterations) {
    CostLine line;
    // Which batches follow each other without a pause depends on the latency, and the other way round.
    for (int round = 0; round < 3; ++round) {
        const auto early = static_cast<Nanoseconds>(std::max(line.latency - line.startup, 0.0) * 1e9);
        std::vector<BusyTime> times;
        for (const IterationTimes& iteration : iterations)
            for (const Busy& busy : busy_times(iteration, early))
                times.push_back({busy.batches, busy.bytes, seconds_of(busy.end - busy.begin)});
        line = fit_cost_line(times);
    }
    return line;
}

}  // namespace

std::vector<Nanoseconds> IterationTimes::times() const {
    std::vector<Nanoseconds> all{begun, backward, ended};
    all.insert(all.end(), ready.begin(), ready.end());
    for (const Moved& one : moved) all.insert(all.end(), {one.handed, one.ended});
    return all;
}

void IterationTimes::set_times(std::span<const Nanoseconds>& from) {
    const auto next = [&from](Nanoseconds& to) {
        to = from.front();
        from = from.subspan(1);
    };
    for (Nanoseconds* const to : {&begun, &backward, &ended}) next(*to);
    for (Nanoseconds& to : ready) next(to);
    for (Moved& one : moved) {
        next(one.handed);
        next(one.ended);
    }
}

Profile profile_of(std::span<const IterationTimes> iterations, std::span<const std::string> names,
                   std::span<const std::uint64_t> bytes) {
    const CostLine line = cost_line_of(iterations);
    Profile profile;
    profile.startup = line.startup;
    profile.latency = std::max(line.latency - line.startup, 0.0);
    profile.before = median_of(iterations, [](const IterationTimes& iteration) {
        return seconds_of(iteration.backward - iteration.begun);
    });
    for (std::size_t layer = 0; layer < bytes.size(); ++layer) {
        const double compute = median_of(iterations, [&](const IterationTimes& iteration) {
            const bool is_last = layer + 1 == bytes.size();
            return seconds_of(iteration.ready[layer] -
                              (is_last ? iteration.backward : iteration.ready[layer + 1]));
        });
        profile.layers.push_back(
            {names[layer], line.per_byte * static_cast<double>(bytes[layer]), compute, bytes[layer]});
    }
    return profile;
}

IterationSummary summary_of(std::span<const IterationTimes> iterations) {
    const auto computes_until = [](const IterationTimes& iteration) {
        return iteration.ready.empty() ? iteration.backward : iteration.ready.front();
    };
    return {median_of(iterations,
                      [](const IterationTimes& iteration) {
                          return seconds_of(iteration.ended - iteration.begun);
                      }),
            median_of(iterations,
                      [&](const IterationTimes& iteration) {
                          return seconds_of(computes_until(iteration) - iteration.begun);
                      }),
            median_of(iterations,
                      [](const IterationTimes& iteration) {
                          double seconds = 0;
                          for (const Busy& busy : busy_times(iteration, 0))
                              seconds += seconds_of(busy.end - busy.begin);
                          return seconds;
                      }),
            median_of(iterations, [&](const IterationTimes& iteration) {
                double seconds = 0;
                for (const Busy& busy : busy_times(iteration, 0))
                    seconds += seconds_of(std::min(busy.end, computes_until(iteration)) - busy.begin);
                return seconds;
            })};
}

}  // namespace hocket::overlap
