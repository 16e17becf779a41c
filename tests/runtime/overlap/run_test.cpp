// Run over a link of the test's own, with a clock of the test's own: what it measures, plans and notices.
#include "runtime/overlap/run.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "runtime/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::overlap;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

constexpr auto for_ever = Clock::time_point::max();

// What link, clock and processor do.
struct World {
    Clock::time_point now{};
    CostLine line{0.003, 0.001, 1e-8};
    std::vector<std::uint64_t> bytes{4'000, 30'000, 0, 2'000'000, 100'000, 6'000'000, 500};
    std::vector<double> compute{0.02, 0.05, 0.01, 0.03, 0.06, 0.01, 0.002};
    double before = 0.1;
    bool ends_with_iteration = true;
    bool fails = false;
    // What another rank has measured more than this one; it plans together with this one.
    std::function<void(std::vector<std::int64_t>&)> other = [](auto&) {};
    std::size_t iterations_ended = 0;

    void pass(double seconds) { now += std::chrono::nanoseconds(std::llround(seconds * 1e9)); }
};

class Link final : public Exchange {
  public:
    explicit Link(World& world) : world_(world) {}
    const std::vector<std::uint64_t>& bytes() const override { return world_.bytes; }
    void begin(std::size_t batches) override { ends_.assign(batches, {}); }
    std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) override {
        if (world_.fails) throw Error(Status::peer_lost, "the other rank is gone");
        std::uint64_t bytes = 0;
        for (std::size_t layer = first; layer < last; ++layer) bytes += world_.bytes[layer];
        if (bytes == 0) return 0;
        const auto after = [](Clock::time_point time, double seconds) {
            return time + std::chrono::nanoseconds(std::llround(seconds * 1e9));
        };
        const Clock::time_point begin =
            std::max(after(world_.now, world_.line.latency), after(free_, world_.line.startup));
        free_ = ends_[batch] = after(begin, world_.line.per_byte * static_cast<double>(bytes));
        return bytes;
    }
    std::optional<Clock::time_point> wait(std::size_t batch, Clock::time_point until) override {
        if (ends_[batch] > until) return std::nullopt;
        world_.now = std::max(world_.now, ends_[batch]);
        return ends_[batch];
    }
    void end() override { ++world_.iterations_ended; }
    bool ends_with_iteration() const override { return world_.ends_with_iteration; }
    std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) override {
        world_.other(own);
        return own;
    }

  private:
    World& world_;
    std::vector<Clock::time_point> ends_;
    Clock::time_point free_{};
};

struct Training {
    explicit Training(World& of, RunOptions options = {})
        : world(of),
          run(std::make_unique<Link>(of), std::vector<std::string>(of.bytes.size(), "a layer"), [&] {
              options.now = [&of] { return of.now; };
              return options;
          }()) {}

    void iterate(int times = 1) {
        for (; times > 0; --times) {
            // Without a wait at the end of an iteration there is one at the beginning of the next.
            if (world.ends_with_iteration) world.pass(world.before / 2);
            REQUIRE(run.forward(0, for_ever));
            world.pass(world.ends_with_iteration ? world.before / 2 : world.before);
            REQUIRE(run.begin_backward(for_ever));
            for (std::size_t layer = world.bytes.size(); layer-- > 0;) {
                world.pass(world.compute[layer]);
                run.backward(layer);
            }
            REQUIRE(run.finish(for_ever));
        }
    }

    World& world;
    Run run;
};

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.status() == Status::invalid_argument);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("what is measured is what the link and the layers take") {
    for (const bool ends_with_iteration : {true, false}) {
        World world;
        world.ends_with_iteration = ends_with_iteration;
        Training training(world);
        CHECK(training.run.profile() == nullptr);
        training.iterate(15);
        CHECK(training.run.profile() == nullptr);
        CHECK(training.run.stats().plans == 0);
        training.iterate();
        REQUIRE(training.run.profile() != nullptr);
        const Profile& profile = *training.run.profile();
        CHECK(profile.startup == Approx(0.001).epsilon(0.01));
        CHECK(profile.latency == Approx(0.002).epsilon(0.01));
        CHECK(profile.before == Approx(0.1).epsilon(0.01));
        for (std::size_t layer = 0; layer < world.bytes.size(); ++layer) {
            CHECK(profile.layers[layer].compute == Approx(world.compute[layer]).margin(1e-6));
            CHECK(profile.layers[layer].transfer ==
                  Approx(1e-8 * static_cast<double>(world.bytes[layer])).epsilon(0.01).margin(1e-9));
            CHECK(profile.layers[layer].bytes == world.bytes[layer]);
        }
    }
}

TEST_CASE("an iteration takes what was predicted, with every method") {
    for (const Method method : all_methods) {
        World world;
        RunOptions options;
        options.method = method;
        options.bucket_bytes = 1'000'000;
        Training training(world, options);
        training.iterate(30);
        const RunStats stats = training.run.stats();
        INFO(name_of(method));
        CHECK(stats.iterations == 30);
        CHECK(stats.plans == 1);
        CHECK(stats.batches == training.run.batches().size());
        CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.001));
        CHECK(stats.measured.computation == Approx(0.1 + 0.182).epsilon(0.001));
        CHECK(stats.measured.overlap <= stats.measured.communication);
        CHECK(stats.measured.communication + stats.measured.computation - stats.measured.overlap ==
              Approx(stats.measured.seconds).epsilon(0.001));
    }
}

TEST_CASE("the plan is of the method, under the limit") {
    World world;
    RunOptions options;
    options.limit_bytes = 2'100'000;
    Training training(world, options);
    training.iterate(16);
    const Profile& profile = *training.run.profile();
    PlanOptions planning;
    planning.direction = Direction::backward;
    CHECK(training.run.batches() != plan(profile, Method::optimum, planning).batches);
    planning.limit_bytes = options.limit_bytes;
    CHECK(training.run.batches() == plan(profile, Method::optimum, planning).batches);
}

TEST_CASE("a profile of an earlier run is planned from at once") {
    World world;
    Training first(world);
    first.iterate(16);
    RunOptions options;
    options.profile = parse_profile(json_of(*first.run.profile()));
    Training second(world, options);
    CHECK(second.run.batches() == first.run.batches());
    CHECK(second.run.stats().plans == 1);
    second.iterate(5);
    CHECK(second.run.batches() == first.run.batches());
    CHECK(second.run.stats().measured.seconds == Approx(second.run.stats().predicted_seconds).epsilon(0.001));

    options.profile->layers.pop_back();
    CHECK_THAT(refusal([&] { Training(world, options); }), Contains("has 6 layers, and the model 7"));
    options.profile = *first.run.profile();
    options.profile->layers[3].bytes = 5;
    CHECK_THAT(refusal([&] { Training(world, options); }), Contains("layer 3 has 5 bytes"));
}

TEST_CASE("times that change are measured anew") {
    World world;
    RunOptions options;
    options.look_every = 10;
    Training training(world, options);
    training.iterate(16);
    const Batches before = training.run.batches();
    training.iterate(40);
    CHECK(training.run.stats().plans == 1);
    world.line.per_byte *= 1.02;  // too little
    training.iterate(40);
    CHECK(training.run.stats().plans == 1);
    world.line = {0.06, 0.03, 3e-8};
    training.iterate(40);
    CHECK(training.run.stats().plans == 2);
    CHECK(training.run.batches() != before);
    CHECK(training.run.profile()->startup == Approx(0.03).epsilon(0.01));
    CHECK(training.run.stats().measured.seconds ==
          Approx(training.run.stats().predicted_seconds).epsilon(0.001));
    world.line = {0.003, 0.001, 1e-8};
    training.iterate(60);
    CHECK(training.run.stats().plans == 3);
    CHECK(training.run.batches() == before);

    options.look_every.reset();
    Training blind(world, options);
    blind.iterate(16);
    world.line.per_byte *= 4;
    blind.iterate(300);
    CHECK(blind.run.stats().plans == 1);
}

TEST_CASE("ranks that plan together take the times of the slowest") {
    World world;
    RunOptions options;
    options.measure = 3;
    Training training(world, options);
    // The two iterations that are looked at, with one batch and with two: begin, backward pass, end, layers,
    // and twice as many as batches. Another rank had the gradients of layer 4 nearer to the end, by 25 ms.
    world.other = [&](std::vector<std::int64_t>& times) {
        if (times.size() == 2) return;  // what all have in common
        REQUIRE(times.size() == (3 + 7 + 2) + (3 + 7 + 4));
        for (const std::size_t iteration : {0, 3 + 7 + 2}) times[iteration + 3 + 4] += 25'000'000;
    };
    training.iterate(3);
    const Profile& profile = *training.run.profile();
    CHECK(profile.layers[4].compute == Approx(0.06 + 0.025));
    CHECK(profile.layers[3].compute == Approx(0.03 - 0.025));
}

TEST_CASE("other layers or options on another rank are a mismatch") {
    World world;
    world.other = [](std::vector<std::int64_t>& fingerprint) { ++fingerprint[0]; };
    try {
        Training training(world);
        FAIL("it went on");
    } catch (const Error& error) {
        CHECK(error.status() == Status::mismatch);
    }
}

TEST_CASE("calls out of turn are refused, and change nothing") {
    World world;
    Training training(world);
    Run& run = training.run;
    CHECK_THAT(refusal([&] { run.forward(7, for_ever); }), Contains("layer 7: there are 7"));
    CHECK_THAT(refusal([&] { run.backward(6); }), Contains("has not begun"));
    CHECK_THAT(refusal([&] { run.finish(for_ever); }), Contains("has not begun"));
    REQUIRE(run.begin_backward(for_ever));
    CHECK_THAT(refusal([&] { run.begin_backward(for_ever); }), Contains("has begun already"));
    CHECK_THAT(refusal([&] { run.forward(0, for_ever); }), Contains("out of turn"));
    CHECK_THAT(refusal([&] { run.backward(5); }), Contains("layer 5 are out of turn: those of layer 6"));
    run.backward(6);
    CHECK_THAT(refusal([&] { run.finish(for_ever); }), Contains("layers 0 to 5 are missing"));
    for (std::size_t layer = 6; layer-- > 0;) run.backward(layer);
    CHECK_THAT(refusal([&] { run.backward(0); }), Contains("all layers were there"));
    REQUIRE(run.finish(for_ever));
    training.iterate(20);
    CHECK(run.stats().plans == 1);
}

TEST_CASE("a wait that is over early is taken up again") {
    for (const bool ends_with_iteration : {true, false}) {
        World world;
        world.ends_with_iteration = ends_with_iteration;
        Training training(world);
        Run& run = training.run;
        REQUIRE(run.begin_backward(world.now));
        for (std::size_t layer = 7; layer-- > 0;) run.backward(layer);
        if (ends_with_iteration) {
            CHECK_FALSE(run.finish(world.now));
            CHECK_FALSE(run.finish(world.now));
        }
        CHECK(run.finish(ends_with_iteration ? for_ever : world.now));
        CHECK(world.iterations_ended == 1);
        if (!ends_with_iteration) {
            CHECK_FALSE(run.forward(0, world.now));
            CHECK_FALSE(run.begin_backward(world.now));
        }
        CHECK(run.begin_backward(for_ever));
    }
}

TEST_CASE("after a failure all calls fail alike") {
    World world;
    Training training(world);
    training.iterate(2);
    REQUIRE(training.run.begin_backward(for_ever));
    world.fails = true;
    const auto fails = [&](const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.status() == Status::peer_lost &&
                   std::string(error.what()) == "the other rank is gone";
        }
        return false;
    };
    CHECK(fails([&] {
        for (std::size_t layer = 7; layer-- > 0;) training.run.backward(layer);
    }));
    world.fails = false;
    CHECK(fails([&] { training.run.forward(0, for_ever); }));
    CHECK(fails([&] { training.run.finish(for_ever); }));
}

TEST_CASE("random links and models are measured right") {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> exponent(0, 1);
    const auto between = [&](double least, double most) {
        return least * std::pow(most / least, exponent(random));
    };
    for (int round = 0; round < 60; ++round) {
        World world;
        const double startup = between(1e-5, 0.02);
        world.line = {startup * between(1, 4), startup, between(1e-9, 1e-7)};
        world.bytes.resize(2 + random() % 40);
        world.compute.resize(world.bytes.size());
        for (std::uint64_t& bytes : world.bytes) bytes = static_cast<std::uint64_t>(between(100, 1e7));
        for (double& seconds : world.compute) seconds = between(1e-4, 0.1);
        RunOptions options;
        options.method = all_methods[round % std::size(all_methods)];
        Training training(world, options);
        training.iterate(20);
        const RunStats stats = training.run.stats();
        INFO(round << " " << name_of(options.method) << " latency " << world.line.latency << " startup "
                   << world.line.startup << " per byte " << world.line.per_byte);
        CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.02));
    }
}
