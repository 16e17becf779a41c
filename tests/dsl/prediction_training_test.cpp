// Jobs whose models have layers: what communicates while what computes.
#include <limits>

#include "dsl/prediction/simulation.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

namespace {

// A worker and a server with a byte a second in each direction; 40 bytes, 12 s backward, 4 s forward.
dsl::Job three_layers() {
    dsl::Job job;
    job.name = "test";
    job.placement = dsl::Job::Placement::order;
    job.bytes = 40;
    job.layers = {{10, 3, 1}, {20, 4, 2}, {10, 5, 1}};
    return job;
}

dsl::JobTimes times_of(const dsl::Job& job) {
    return dsl::simulate({{job}, 1, 8}, dsl::find_network("switch@8b/s", dsl::flat_topology(2)), true)
        .jobs.at(0);
}

void check(const dsl::ExchangeTimes& times, const dsl::ExchangeTimes& expected) {
    CHECK(times.begin == Approx(expected.begin).epsilon(1e-12));
    CHECK(times.push == Approx(expected.push).epsilon(1e-12));
    CHECK(times.pull == Approx(expected.pull).epsilon(1e-12));
    CHECK(times.iteration == Approx(expected.iteration).epsilon(1e-12));
    CHECK(times.computation == Approx(expected.computation).epsilon(1e-12));
    CHECK(times.communication == Approx(expected.communication).epsilon(1e-12));
    CHECK(times.overlap == Approx(expected.overlap).margin(1e-12));
}

}  // namespace

TEST_CASE("without batches a job computes backward, pushes, pulls and computes forward") {
    dsl::Job job = three_layers();
    job.overlap.startup = 2;
    check(times_of(job).exchanges.at(0), {12, 42, 42, 100, 16, 84, 0});
    job.overlap.gradients = 0.5;
    check(times_of(job).exchanges.at(0), {12, 22, 42, 80, 16, 64, 0});
    CHECK(times_of(job).push_load == Approx(20).epsilon(1e-12));
    job.iterations = 3;
    job.start = 7;
    CHECK(times_of(job).end == Approx(7 + 3 * 80).epsilon(1e-12));
    CHECK(times_of(job).exchanges.at(2).begin == Approx(7 + 2 * 80 + 12).epsilon(1e-12));
}

TEST_CASE("batches of gradients go while others compute, those of the first layers first") {
    dsl::Job job = three_layers();
    job.overlap.startup = 2;
    job.overlap.pushes = {1, 2, 3};
    // The last layer's is gone at 17. By then both others wait, and the first one's goes till 29, then the
    // second's.
    check(times_of(job).exchanges.at(0), {5, 46, 42, 97, 16, 88, 7});
}

TEST_CASE("a layer computes forward when its weights have come") {
    dsl::Job job = three_layers();
    job.overlap.startup = 2;
    job.overlap.pulls = {1, 2, 3};
    // Pulls end 12, 34 and 46 s after 54.
    check(times_of(job).exchanges.at(0), {12, 42, 46, 101, 16, 88, 3});
    job.overlap.pulls = {2, 3};
    check(times_of(job).exchanges.at(0), {12, 42, 44, 99, 16, 86, 3});
}

TEST_CASE("weights can follow their own gradients") {
    dsl::Job job = three_layers();
    job.overlap.startup = 2;
    job.overlap.pushes = job.overlap.pulls = {1, 2, 3};
    job.overlap.early = true;
    // Gradients have come at 17 (the last layer), 29 (the first) and 51, weights at 29, 41 and 73.
    check(times_of(job).exchanges.at(0), {5, 46, 56, 76, 16, 68, 8});
}

TEST_CASE("workers can combine gradients without servers") {
    dsl::Job job = three_layers();
    job.overlap.startup = 1;
    job.overlap.pushes = {1, 2, 3};
    job.overlap.combines = {5, 6, 7};
    // The last layer's are combined at 13, the first one's at 19, the second's at 26.
    check(times_of(job).exchanges.at(0), {5, 21, 0, 30, 16, 21, 7});
    job.overlap.early = true;
    check(times_of(job).exchanges.at(0), {5, 21, 0, 29, 16, 21, 8});
    CHECK_THAT(test::error_of([&] {
                   dsl::simulate({{job, three_layers()}, 1, 8},
                                 dsl::find_network("switch@8b/s", dsl::flat_topology(2)));
               }),
               Catch::Contains("without servers, beside other jobs"));
}

TEST_CASE("a batch without bytes takes no time, nor does one between processes of a host") {
    dsl::Job job = three_layers();
    job.overlap.startup = 2;
    job.layers[2].bytes = 0;
    job.layers[1].bytes = 30;
    job.overlap.pushes = job.overlap.pulls = {1, 2, 3};
    // Pushes from 9 to 41, and till 53; pulls from there to 65 and 97; the last layer needs no more.
    check(times_of(job).exchanges.at(0), {5, 48, 44, 100, 16, 88, 4});
    const dsl::Network alone = dsl::find_network("switch@8b/s", dsl::flat_topology(1));
    CHECK(dsl::simulate({{job}, 1, 8}, alone).jobs[0].exchanges[0].iteration == Approx(12 + 2 + 2 + 2 + 3));
}

TEST_CASE("layers and batches that make no sense are refused") {
    const auto refusal = [](auto change) {
        dsl::Job job = three_layers();
        change(job);
        return test::error_of([&] { times_of(job); });
    };
    using Catch::Contains;
    CHECK_THAT(refusal([](dsl::Job& job) {
                   job.overlap.pushes = {1, 2};
               }),
               Contains("not those of 3 layers"));
    CHECK_THAT(refusal([](dsl::Job& job) {
                   job.overlap.pulls = {2, 2, 3};
               }),
               Contains("not those of 3 layers"));
    CHECK_THAT(refusal([](dsl::Job& job) { job.layers[1].forward = -1; }), Contains("-1 s forward"));
    CHECK_THAT(refusal([](dsl::Job& job) { job.layers = {{0, 1, 1}}; }), Contains("layers of 0 bytes"));
    CHECK_THAT(refusal([](dsl::Job& job) { job.overlap.startup = std::numeric_limits<double>::infinity(); }),
               Contains("a start-up of inf s"));
    CHECK_THAT(refusal([](dsl::Job& job) { job.overlap.gradients = 0; }), Contains("0 bytes of gradients"));
    CHECK_THAT(refusal([](dsl::Job& job) { job.overlap.combines = {1, 2}; }), Contains("2 times for"));
}
