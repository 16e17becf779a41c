#include "runtime/overlap/measured.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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

// A time in which batches were in flight, with these batches in the order in which they were started.
struct Busy {
    std::vector<IterationTimes::Moved> moved;
    Nanoseconds begin = 0, end = 0;
};

// Returns the times from the start of each batch until all had arrived; that of the last batch first.
std::vector<BusyTime> times_of_chains(const Busy& busy) {
    std::vector<BusyTime> chains;
    BusyTime chain{0, 0, 0};
    for (auto moved = busy.moved.rbegin(); moved != busy.moved.rend(); ++moved) {
        chain = {chain.communications + 1, chain.bytes + moved->bytes, seconds_of(busy.end - moved->handed)};
        chains.push_back(chain);
    }
    return chains;
}

// Returns the busy times in the order in which they ran, the last batch first. A batch that is started up to
// `early` before the others have ended counts as following a pause, which its latency explains.
std::vector<Busy> busy_times(const IterationTimes& iteration, Nanoseconds early) {
    std::vector<Busy> all;
    for (auto moved = iteration.moved.rbegin(); moved != iteration.moved.rend(); ++moved) {
        if (moved->bytes == 0) continue;
        if (all.empty() || moved->handed + early >= all.back().end)
            all.push_back({{}, moved->handed, moved->ended});
        all.back().moved.push_back(*moved);
        all.back().end = std::max(all.back().end, moved->ended);
    }
    return all;
}

// Returns the chain of batches that determines the end if batches cost what the line says: those started from
// one of them on. Batches in flight together wait for their latencies together, or for a worker that is late,
// so the link may have been idle between batches whose times overlap.
BusyTime longest_chain(const Busy& busy, const CostLine& line) {
    BusyTime longest;
    double latest = -std::numeric_limits<double>::infinity();
    for (const BusyTime& time : times_of_chains(busy)) {
        const double would_end = line.seconds_of(time) - time.seconds;
        if (would_end <= latest) continue;
        latest = would_end;
        longest = time;
    }
    return longest;
}

// Returns candidates for `early`: some of the times by which batches were started before the others had
// ended, from 0 on.
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

// A line, and its error on the times that it was fitted to.
struct Fit {
    CostLine line;
    double error = std::numeric_limits<double>::infinity();  // relative to the times
};

Fit fit(const std::vector<BusyTime>& times) {
    Fit made{fit_cost_line(times), 0};
    double seconds = 0;
    for (const BusyTime& time : times) {
        made.error += std::abs(time.seconds - made.line.seconds_of(time));
        seconds += time.seconds;
    }
    if (seconds > 0) made.error /= seconds;
    return made;
}

CostLine line_of_busy_times(std::span<const IterationTimes> iterations, Nanoseconds early) {
    std::vector<BusyTime> times;
    for (const IterationTimes& iteration : iterations)
        for (const Busy& busy : busy_times(iteration, early)) times.push_back(times_of_chains(busy).back());
    return fit_cost_line(times);
}

// The batch that is started last, with the first layers, overtakes the others and is a time of its own.
Fit fit_to_chains(std::span<const IterationTimes> iterations, Nanoseconds early, const CostLine& line) {
    std::vector<BusyTime> times;
    for (const IterationTimes& iteration : iterations) {
        const std::vector<Busy> all = busy_times(iteration, early);
        for (const Busy& busy : all) times.push_back(longest_chain(busy, line));
        if (all.empty() || times.back().communications == 1) continue;
        const IterationTimes::Moved& last = all.back().moved.back();
        times.push_back({1, last.bytes, seconds_of(last.ended - last.handed)});
    }
    return fit(times);
}

// Compares fits. Batches that are started at the rate at which they would follow each other on the link fit
// both interpretations. Of equally good lines the one with the smaller start-up is better: it depends on
// fewer times.
bool is_better(const Fit& one, const Fit& other) {
    constexpr double clearly = 0.9, rounding = 1e-9;
    if (one.error < clearly * other.error - rounding) return true;
    return one.error * clearly <= other.error + rounding && one.line.startup < other.line.startup;
}

// The division of batches into busy times depends on the line, and the line depends on the division. So this
// tries several divisions, and takes the one whose times are closest to a line.
CostLine cost_line_of(std::span<const IterationTimes> iterations, Order order) {
    // If batches share the link, their ends tell nothing about pauses between them.
    if (order == Order::together) return line_of_busy_times(iterations, 0);
    constexpr int refinements = 5;
    Fit best;
    for (const Nanoseconds early : possible_pauses(iterations)) {
        Fit one{line_of_busy_times(iterations, early)};
        for (int i = 0; i < refinements; ++i) {
            one = fit_to_chains(iterations, early, one.line);
            if (is_better(one, best)) best = one;
        }
    }
    return best.line;
}

// Fits the cost of weights that are pulled separately: one batch after another, since the first one was asked
// for.
CostLine pull_line_of(std::span<const IterationTimes> iterations) {
    std::vector<BusyTime> times;
    for (const IterationTimes& iteration : iterations) {
        BusyTime so_far{0, 0, 0};
        Nanoseconds begin = 0;
        for (const IterationTimes::Moved& pulled : iteration.pulled) {
            if (pulled.bytes == 0) continue;
            if (so_far.communications++ == 0) begin = pulled.handed;
            so_far.bytes += pulled.bytes;
            so_far.seconds = seconds_of(pulled.ended - begin);
            times.push_back(so_far);
        }
    }
    return fit_cost_line(times);
}

// The time that one layer's pass took in one iteration.
struct Computed {
    double seconds = 0, beside = 0;  // beside: the part during which batches were in flight
};

double seconds_beside(Nanoseconds begin, Nanoseconds end, const std::vector<Busy>& busy) {
    double seconds = 0;
    auto one =
        std::partition_point(busy.begin(), busy.end(), [&](const Busy& of) { return of.end <= begin; });
    for (; one != busy.end() && one->begin < end; ++one)
        seconds += seconds_of(std::min(end, one->end) - std::max(begin, one->begin));
    return seconds;
}

// Returns the times by layer.
std::vector<Computed> computed_backward(const IterationTimes& iteration) {
    const std::vector<Busy> busy = busy_times(iteration, 0);
    std::vector<Computed> all(iteration.ready.size());
    for (std::size_t layer = all.size(); layer-- > 0;) {
        const Nanoseconds end = iteration.ready[layer],
                          begin = layer + 1 < all.size() ? iteration.ready[layer + 1] : iteration.backward;
        all[layer] = {seconds_of(end - begin), seconds_beside(begin, end, busy)};
    }
    return all;
}

std::vector<Computed> computed_forward(const IterationTimes& iteration) {
    const std::vector<Busy> busy = busy_times(iteration, 0);
    std::vector<Computed> all(iteration.ready.size());
    for (const IterationTimes::Span& span : iteration.forward) {
        if (!span.layer) continue;
        all[*span.layer].seconds += seconds_of(span.end - span.begin);
        all[*span.layer].beside += seconds_beside(span.begin, span.end, busy);
    }
    return all;
}

// Returns the time outside the backward pass, without waits: after it, or before it.
double seconds_before(const IterationTimes& iteration) {
    if (iteration.forward.empty()) return seconds_of(iteration.backward - iteration.begun);
    double seconds = 0;
    for (const IterationTimes::Span& span : iteration.forward) seconds += seconds_of(span.end - span.begin);
    return seconds;
}

// A layer counts as computing alone, or during communication, if that holds for nearly all of its time.
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

// Returns the relative slowdown of layers that compute during communication (0.2: 20 % longer): the median
// over the iterations. An iteration counts the layers that communication overlapped for at least 95 % of
// their time.
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
        // A small part of the computation is dominated by noise of the machine.
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
                   std::span<const std::uint64_t> bytes, Order order) {
    std::vector<IterationTimes> with_gradients, apart;
    for (const IterationTimes& iteration : iterations)
        (iteration.plan.pulls_forward() ? apart : with_gradients).push_back(iteration);
    Profile profile;
    if (!apart.empty()) profile.pull = pull_line_of(apart);
    // If no weights have come back with gradients, either cost may be used.
    const CostLine line = with_gradients.empty() ? *profile.pull : cost_line_of(with_gradients, order);
    profile.startup = line.startup;
    profile.latency = std::max(line.latency - line.startup, 0.0);
    profile.before = median_of(iterations, seconds_before);
    std::vector<std::vector<Computed>> backward, forward;
    for (const IterationTimes& iteration : with_gradients.empty() ? apart : with_gradients) {
        backward.push_back(computed_backward(iteration));
        forward.push_back(computed_forward(iteration));
    }
    for (std::size_t layer = 0; layer < bytes.size(); ++layer) {
        profile.layers.push_back({names[layer], line.per_byte * static_cast<double>(bytes[layer]),
                                  alone_or_all(backward, layer), bytes[layer]});
        if (!iterations.front().forward.empty()) profile.layers.back().forward = alone_or_all(forward, layer);
    }
    profile.contention = contention_of(backward, profile.layers);
    return profile;
}

namespace {

double seconds_of_computing(const IterationTimes& iteration) {
    const Nanoseconds end = iteration.ready.empty() ? iteration.backward : iteration.ready.front();
    return seconds_before(iteration) + seconds_of(end - iteration.backward);
}

double seconds_of_communicating(const IterationTimes& iteration) {
    double seconds = 0;
    for (const Busy& busy : busy_times(iteration, 0)) seconds += seconds_of(busy.end - busy.begin);
    return seconds;
}

double seconds_of_overlap(const IterationTimes& iteration) {
    const std::vector<Busy> busy = busy_times(iteration, 0);
    const Nanoseconds end = iteration.ready.empty() ? iteration.backward : iteration.ready.front();
    double seconds = seconds_beside(iteration.backward, end, busy);
    for (const IterationTimes::Span& span : iteration.forward)
        seconds += seconds_beside(span.begin, span.end, busy);
    return seconds;
}

}  // namespace

IterationSummary summary_of(std::span<const IterationTimes> iterations) {
    return {median_of(iterations,
                      [](const IterationTimes& iteration) {
                          return seconds_of(iteration.ended - iteration.begun);
                      }),
            median_of(iterations, seconds_of_computing), median_of(iterations, seconds_of_communicating),
            median_of(iterations, seconds_of_overlap)};
}

}  // namespace hocket::overlap
