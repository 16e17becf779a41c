#include "runtime/overlap/cost_line.hpp"

#include <random>
#include <vector>

#include "tests/support/test.hpp"

using namespace hocket::overlap;

namespace {

// Times of one to twelve communications of many sizes, as this line makes them, each with up to `noise` of it
// more or less.
std::vector<BusyTime> times_of(const CostLine& line, std::size_t count, std::mt19937_64& random,
                               double noise = 0) {
    std::uniform_int_distribution<std::size_t> communications(1, 12);
    std::uniform_real_distribution<double> exponent(2, 7), error(-noise, noise);
    std::vector<BusyTime> times;
    for (std::size_t i = 0; i < count; ++i) {
        BusyTime time{communications(random), static_cast<std::uint64_t>(std::pow(10, exponent(random))), 0};
        time.seconds = line.seconds_of(time) * (1 + error(random));
        times.push_back(time);
    }
    return times;
}

void check_close(const CostLine& fitted, const CostLine& line, double share) {
    CHECK(fitted.latency == Approx(line.latency).epsilon(share).margin(1e-9));
    CHECK(fitted.startup == Approx(line.startup).epsilon(share).margin(1e-9));
    CHECK(fitted.per_byte == Approx(line.per_byte).epsilon(share));
}

}  // namespace

TEST_CASE("a line is found again") {
    std::mt19937_64 random(1);
    for (const CostLine line : {CostLine{0.002, 0.001, 1e-8}, CostLine{0.01, 0, 1e-7}, CostLine{0, 0, 1e-9},
                                CostLine{0.5, 0.2, 1e-10}})
        check_close(fit_cost_line(times_of(line, 100, random)), line, 1e-4);
}

TEST_CASE("times that are far off do not change the line") {
    std::mt19937_64 random(2);
    const CostLine line{0.003, 0.001, 2e-8};
    for (int round = 0; round < 50; ++round) {
        std::vector<BusyTime> times = times_of(line, 60, random);
        for (std::size_t i = 0; i < 20; ++i) times[3 * i].seconds *= 2 + static_cast<double>(i);
        check_close(fit_cost_line(times), line, 0.01);
    }
}

TEST_CASE("noise moves the line a little") {
    std::mt19937_64 random(3);
    const CostLine line{0.01, 0.005, 2e-8};
    for (int round = 0; round < 20; ++round) {
        const CostLine fitted = fit_cost_line(times_of(line, 200, random, 0.05));
        for (const BusyTime& time : times_of(line, 20, random))
            CHECK(fitted.seconds_of(time) == Approx(line.seconds_of(time)).epsilon(0.1));
    }
}

TEST_CASE("times of one size are the bytes'") {
    const std::vector<BusyTime> times(9, BusyTime{1, 1'000'000, 0.5});
    const CostLine line = fit_cost_line(times);
    CHECK(line.latency == 0);
    CHECK(line.startup == 0);
    CHECK(line.per_byte == Approx(5e-7));
}

TEST_CASE("a line is never negative, and never worse than bytes alone") {
    std::mt19937_64 random(4);
    std::uniform_real_distribution<double> seconds(0, 1);
    const auto error_of = [](const std::vector<BusyTime>& times, const CostLine& line) {
        double error = 0;
        for (const BusyTime& time : times) error += std::abs(1 - line.seconds_of(time) / time.seconds);
        return error;
    };
    for (int round = 0; round < 300; ++round) {
        std::vector<BusyTime> times = times_of({}, 1 + round % 40, random);
        for (BusyTime& time : times) time.seconds = seconds(random);
        const CostLine line = fit_cost_line(times);
        CHECK(line.latency >= 0);
        CHECK(line.startup >= 0);
        CHECK(line.per_byte >= 0);
        for (const double share : {0.5, 1.0, 2.0})
            CHECK(error_of(times, line) <= 1.01 * error_of(times, {0, 0, share * line.per_byte}) + 1e-9);
    }
    const std::vector<BusyTime> no_time(5, BusyTime{2, 1000, 0});
    for (const CostLine& none : {fit_cost_line({}), fit_cost_line(no_time)})
        CHECK(none.latency + none.startup + none.per_byte == 0);
}
