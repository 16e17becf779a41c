#include "runtime/overlap/measured.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/overlap/median.hpp"

namespace hocket::overlap {
namespace {

double seconds_of(Nanoseconds time) {
    return static_cast<double>(std::max<Nanoseconds>(time, 0)) * 1e-9;
}

template <typename Value>
double median_of(std::span<const IterationTimes> iterations, const Value& value) {
    std::vector<double> values;
    for (const IterationTimes& iteration : iterations) values.push_back(value(iteration));
    return median(std::move(values));
}

// A time in which batches were on their way: from when the first was handed over until each of them had come.
struct Busy {
    struct Come {
        std::uint64_t bytes = 0;  // with those of the batches before
        Nanoseconds at = 0;       // all of these
    };
    Nanoseconds begin = 0;
    std::vector<Come> come;
    Nanoseconds end() const { return come.back().at; }
};

// In the order in which they ran: the last batch first. One that is handed over up to `early` before the
// others have ended is behind a pause, which its latency makes.
std::vector<Busy> busy_times(const IterationTimes& iteration, Nanoseconds early) {
    std::vector<Busy> all;
    for (auto moved = iteration.moved.rbegin(); moved != iteration.moved.rend(); ++moved) {
        if (moved->bytes == 0) continue;
        if (all.empty() || moved->handed + early >= all.back().end())
            all.push_back({moved->handed, {{moved->bytes, moved->ended}}});
        else
            all.back().come.push_back(
                {all.back().come.back().bytes + moved->bytes, std::max(all.back().end(), moved->ended)});
    }
    return all;
}

// By how much batches were handed over before the others had ended: some of these times, from 0 on.
std::vector<Nanoseconds> possible_pauses(std::span<const IterationTimes> iterations) {
    constexpr std::size_t most = 16;
    std::vector<Nanoseconds> all;
    for (const IterationTimes& iteration : iterations) {
        Nanoseconds end = INT64_MIN;
        for (auto moved = iteration.moved.rbegin(); moved != iteration.moved.rend(); ++moved) {
            if (moved->bytes == 0) continue;
            if (moved->handed < end) all.push_back(end - moved->handed);
            end = std::max(end, moved->ended);
        }
    }
    std::sort(all.begin(), all.end());
    std::vector<Nanoseconds> some{0};
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
        some.push_back(all[i * all.size() / std::min(most, all.size())]);
    return some;
}

// A line, and how far the times are from it that it was fitted to.
struct Fit {
    CostLine line;
    double error = std::numeric_limits<double>::infinity();  // share of the times

    Nanoseconds pause() const {
        return static_cast<Nanoseconds>(std::max(line.latency - line.startup, 0.0) * 1e9);
    }
};

Fit fit(std::span<const IterationTimes> iterations, Nanoseconds early, bool come_in_order) {
    std::vector<BusyTime> times;
    for (const IterationTimes& iteration : iterations)
        for (const Busy& busy : busy_times(iteration, early))
            for (std::size_t i = come_in_order ? 0 : busy.come.size() - 1; i < busy.come.size(); ++i)
                times.push_back({i + 1, busy.come[i].bytes, seconds_of(busy.come[i].at - busy.begin)});
    Fit made{fit_cost_line(times), 0};
    double seconds = 0;
    for (const BusyTime& time : times) {
        made.error += std::abs(time.seconds - made.line.seconds_of(time));
        seconds += time.seconds;
    }
    if (seconds > 0) made.error /= seconds;
    return made;
}

// Which batches follow each other without a pause depends on the latency, and that on what follows what. So
// of some ways to divide them the one is taken whose times are the most like a line.
CostLine cost_line_of(std::span<const IterationTimes> iterations, bool come_in_order) {
    Fit best;
    const auto try_with = [&](Nanoseconds early) {
        const Fit one = fit(iterations, early, come_in_order);
        const bool is_better = one.error < best.error;
        if (is_better) best = one;
        return is_better;
    };
    // Where batches share the link their ends say nothing about pauses between them.
    if (!come_in_order) return fit(iterations, 0, come_in_order).line;
    for (const Nanoseconds early : possible_pauses(iterations)) try_with(early);
    constexpr int most_refinements = 4;
    for (int i = 0; i < most_refinements && try_with(best.pause()); ++i) continue;
    return best.line;
}

// One layer's backward pass in one iteration.
struct Computed {
    double seconds = 0, beside = 0;  // beside: how long of it batches were on their way
};

// By layer. Both layers and busy times are gone through once, in the order of time.
std::vector<Computed> computed(const IterationTimes& iteration) {
    const std::vector<Busy> busy = busy_times(iteration, 0);
    std::vector<Computed> all(iteration.ready.size());
    auto next = busy.begin();
    for (std::size_t layer = all.size(); layer-- > 0;) {
        const Nanoseconds end = iteration.ready[layer],
                          begin = layer + 1 < all.size() ? iteration.ready[layer + 1] : iteration.backward;
        all[layer].seconds = seconds_of(end - begin);
        while (next != busy.end() && next->end() <= begin) ++next;
        for (auto one = next; one != busy.end() && one->begin < end; ++one)
            all[layer].beside += seconds_of(std::min(end, one->end()) - std::max(begin, one->begin));
    }
    return all;
}

// A layer counts as computing alone, or beside communication, if it did so nearly all of its time.
constexpr double nearly_none = 0.05, nearly_all = 0.95;
constexpr double telling_part = 0.03;  // of a backward pass

double alone_or_all(const std::vector<std::vector<Computed>>& iterations, std::size_t layer) {
    std::vector<double> alone, all;
    for (const auto& iteration : iterations) {
        const Computed& one = iteration[layer];
        all.push_back(one.seconds);
        if (one.beside <= nearly_none * one.seconds) alone.push_back(one.seconds);
    }
    return median(alone.empty() ? std::move(all) : std::move(alone));
}

// By how much longer layers compute beside communication: for each iteration that of all layers that did so.
double contention_of(const std::vector<std::vector<Computed>>& iterations, const std::vector<Layer>& layers) {
    std::vector<double> shares;
    for (const auto& iteration : iterations) {
        double all = 0, alone = 0, beside = 0;
        for (std::size_t layer = 0; layer < layers.size(); ++layer) {
            all += layers[layer].compute;
            if (iteration[layer].beside < nearly_all * iteration[layer].seconds) continue;
            alone += layers[layer].compute;
            beside += iteration[layer].seconds;
        }
        // A small part of the computation tells more of the machine than of communication.
        if (alone > telling_part * all) shares.push_back(beside / alone - 1);
    }
    return std::clamp(median(std::move(shares)), 0.0, largest_contention);
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
                   std::span<const std::uint64_t> bytes, bool come_in_order) {
    const CostLine line = cost_line_of(iterations, come_in_order);
    Profile profile;
    profile.startup = line.startup;
    profile.latency = std::max(line.latency - line.startup, 0.0);
    profile.before = median_of(iterations, [](const IterationTimes& iteration) {
        return seconds_of(iteration.backward - iteration.begun);
    });
    std::vector<std::vector<Computed>> backward;
    for (const IterationTimes& iteration : iterations) backward.push_back(computed(iteration));
    for (std::size_t layer = 0; layer < bytes.size(); ++layer)
        profile.layers.push_back({names[layer], line.per_byte * static_cast<double>(bytes[layer]),
                                  alone_or_all(backward, layer), bytes[layer]});
    profile.contention = contention_of(backward, profile.layers);
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
                              seconds += seconds_of(busy.end() - busy.begin);
                          return seconds;
                      }),
            median_of(iterations, [&](const IterationTimes& iteration) {
                double seconds = 0;
                for (const Busy& busy : busy_times(iteration, 0))
                    seconds += seconds_of(std::min(busy.end(), computes_until(iteration)) - busy.begin);
                return seconds;
            })};
}

}  // namespace hocket::overlap
