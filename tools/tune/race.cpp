#include "tools/tune/race.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tools/bench/comm.hpp"
#include "tools/bench/statistics.hpp"

namespace hocket::tune {
namespace {

constexpr bench::Loop first_look{bench::Method::span, 2, 3};
constexpr int most_iterations = 200, most_rounds = 50;
constexpr double rounds_wanted = 8, hopeless = 1.5;

using Samples = std::vector<double>;

// Adds the times of a round: every iteration or, if the ranks share no clock, the mean of its loop.
void add(Samples& samples, const bench::Timing& timing) {
    if (timing.spans_us.empty()) samples.push_back(timing.time_us);
    samples.insert(samples.end(), timing.spans_us.begin(), timing.spans_us.end());
}

void drop_hopeless(std::vector<int>& running, const std::vector<Samples>& samples) {
    double leader = bench::median(samples[running[0]]);
    for (const int plan : running) leader = std::min(leader, bench::median(samples[plan]));
    std::erase_if(running, [&](int plan) {
        return *std::min_element(samples[plan].begin(), samples[plan].end()) > hopeless * leader;
    });
}

// Returns the number of iterations with which a round of all plans takes its share of the time.
int iterations_for(double seconds, const std::vector<int>& running, const std::vector<Samples>& samples) {
    double turn_us = 0;
    for (const int plan : running) turn_us += bench::median(samples[plan]);
    return static_cast<int>(
        std::clamp(seconds * 1e6 / rounds_wanted / turn_us, 1.0, double(most_iterations)));
}

}  // namespace

std::vector<double> race(hkt_comm* comm, bench::Method method, int plans, double seconds,
                         const std::function<void(int)>& once) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    std::vector<Samples> samples(plans);
    std::vector<int> running(plans);
    std::iota(running.begin(), running.end(), 0);
    bench::Loop loop = first_look;
    loop.method = method;
    for (int round = 0; round < most_rounds; ++round) {
        const auto timings = bench::measure(comm, loop, static_cast<int>(running.size()),
                                            [&](int place) { once(running[place]); });
        for (std::size_t place = 0; place < running.size(); ++place)
            add(samples[running[place]], timings[place]);
        drop_hopeless(running, samples);
        if (!bench::all_agree(comm, running.size() > 1 && Clock::now() < end)) break;
        loop = {method, 1, iterations_for(seconds, running, samples)};
    }
    std::vector<double> medians;
    for (const Samples& of_plan : samples) medians.push_back(bench::median(of_plan));
    return medians;
}

}  // namespace hocket::tune
