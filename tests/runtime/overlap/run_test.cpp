// Run over a link and a clock of the test's own: its measurements, plans and reactions.
#include "runtime/overlap/run.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "runtime/base/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::overlap;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

constexpr auto for_ever = Clock::time_point::max();

// A model of the link, the clock and the processor.
struct World {
    Clock::time_point now{};
    CostLine line{0.003, 0.001, 1e-8};
    CostLine pull_line{0.004, 0.0015, 1.2e-8};
    std::vector<std::uint64_t> bytes{4'000, 30'000, 0, 2'000'000, 100'000, 6'000'000, 500};
    std::vector<double> compute{0.02, 0.05, 0.01, 0.03, 0.06, 0.01, 0.002};
    double before = 0.1;
    // For weights that come back: the forward pass that waits for them is a part of `before`.
    std::vector<double> forward{0.01, 0.02, 0, 0.03, 0.01, 0.01, 0.01};
    bool pulls = false;
    bool fails = false;
    Status failure = Status::peer_lost;
    // Adds the differences that another rank measured; the two ranks plan together.
    std::function<void(std::vector<std::int64_t>&)> other = [](auto&) {};
    std::size_t iterations_ended = 0;

    double contention = 0;
    Clock::time_point link_free{};  // from then on

    // A layer computes.
    void compute_for(double seconds) {
        const double busy = std::max(0.0, std::chrono::duration<double>(link_free - now).count());
        const double beside = std::min(seconds, busy / (1 + contention));
        pass(beside * (1 + contention) + seconds - beside);
    }
    void pass(double seconds) { now += std::chrono::nanoseconds(std::llround(seconds * 1e9)); }
};

Clock::time_point after(Clock::time_point time, double seconds) {
    return time + std::chrono::nanoseconds(std::llround(seconds * 1e9));
}
double seconds_of(Clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Moves the layers that were handed over, each after its batch's latency: always the first layer that is
// ready.
class Link final : public Exchange {
  public:
    explicit Link(World& world) : world_(world) {}
    const std::vector<std::uint64_t>& bytes() const override { return world_.bytes; }
    void begin(const IterationPlan& plan) override {
        plan_ = plan;
        moving_.assign(world_.bytes.size(), {});
        is_settled_ = false;
    }
    std::uint64_t start(std::size_t, std::size_t first, std::size_t last) override {
        if (world_.fails) throw Error(world_.failure, "the other rank is gone");
        const std::uint64_t bytes = bytes_of(first, last);
        if (bytes == 0) return 0;
        for (std::size_t layer = first; layer < last; ++layer)
            moving_[layer] = {seconds_of(world_.now) + world_.line.latency - world_.line.startup,
                              world_.line.per_byte * static_cast<double>(world_.bytes[layer]) +
                                  (layer == first ? world_.line.startup : 0)};
        const Clock::time_point begin =
            std::max(after(world_.now, world_.line.latency), after(free_, world_.line.startup));
        world_.link_free = free_ = after(begin, world_.line.per_byte * static_cast<double>(bytes));
        return bytes;
    }
    std::optional<Clock::time_point> wait(std::size_t batch, Clock::time_point until) override {
        settle();
        return reached(latest(begin_of(plan_.backward, batch), plan_.backward[batch]), until);
    }
    void end() override {
        ++world_.iterations_ended;
        if (plan_.forward.empty()) return;
        settle();
        pulled_.clear();
        double link = seconds_of(world_.now), startup = world_.pull_line.latency;
        for (std::size_t batch = 0; batch < plan_.forward.size(); ++batch) {
            const std::uint64_t bytes = pulled_bytes()[batch];
            const double gradients = latest(0, plan_.forward[batch]);
            if (bytes > 0) {
                link = std::max(link + startup + world_.pull_line.per_byte * static_cast<double>(bytes),
                                gradients);
                startup = world_.pull_line.startup;
            }
            pulled_.push_back(link);
        }
        world_.link_free = std::max(world_.link_free, after({}, link));
    }
    std::vector<std::uint64_t> pulled_bytes() const override {
        std::vector<std::uint64_t> bytes;
        for (std::size_t batch = 0; batch < plan_.forward.size(); ++batch)
            bytes.push_back(bytes_of(begin_of(plan_.forward, batch), plan_.forward[batch]));
        return bytes;
    }
    std::optional<Clock::time_point> wait_for_pull(std::size_t batch, Clock::time_point until) override {
        return reached(pulled_[batch], until);
    }
    Order order() const override { return Order::first_layers_first; }
    bool pulls() const override { return world_.pulls; }
    std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) override {
        world_.other(own);
        return own;
    }

  private:
    struct Moving {
        double begin = 0, left = 0;
    };
    std::uint64_t bytes_of(std::size_t first, std::size_t last) const {
        std::uint64_t bytes = 0;
        for (std::size_t layer = first; layer < last; ++layer) bytes += world_.bytes[layer];
        return bytes;
    }
    std::optional<Clock::time_point> reached(double seconds, Clock::time_point until) {
        const Clock::time_point time = after({}, seconds);
        if (time > until) return std::nullopt;
        world_.now = std::max(world_.now, time);
        return time;
    }
    double latest(std::size_t first, std::size_t last) const {
        return *std::max_element(moved_.begin() + static_cast<std::ptrdiff_t>(first),
                                 moved_.begin() + static_cast<std::ptrdiff_t>(last));
    }
    // All is handed over: when has each layer moved?
    void settle() {
        if (std::exchange(is_settled_, true)) return;
        moved_.assign(moving_.size(), 0);
        constexpr double never = 1e18;
        double now = 0, next = 0;
        for (; next < never; now = next) {
            next = never;
            auto moves = moving_.end();
            for (auto one = moving_.begin(); one != moving_.end(); ++one) {
                if (one->left <= 0) continue;
                if (one->begin > now)
                    next = std::min(next, one->begin);
                else if (moves == moving_.end())
                    moves = one;
            }
            if (moves == moving_.end()) continue;
            next = std::min(next, now + moves->left);
            moves->left -= next - now;
            if (moves->left < 1e-12) {
                moves->left = 0;
                moved_[static_cast<std::size_t>(moves - moving_.begin())] = next;
            }
        }
    }

    World& world_;
    IterationPlan plan_;
    std::vector<Moving> moving_;  // by layer
    std::vector<double> moved_;   // by layer
    std::vector<double> pulled_;  // by batch
    bool is_settled_ = false;
    Clock::time_point free_{};
};

// A link that all batches that are on their way share evenly, each after its latency.
class SharedLink final : public Exchange {
  public:
    explicit SharedLink(World& world) : world_(world) {}
    const std::vector<std::uint64_t>& bytes() const override { return world_.bytes; }
    void begin(const IterationPlan& plan) override { moving_.assign(plan.backward.size(), {}); }
    std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) override {
        for (std::size_t layer = first; layer < last; ++layer)
            moving_[batch].left += world_.line.per_byte * static_cast<double>(world_.bytes[layer]);
        moving_[batch].begin = seconds_of(world_.now) + world_.line.latency;
        return static_cast<std::uint64_t>(moving_[batch].left / world_.line.per_byte);
    }
    // Only at this point is it known which batches share the link.
    std::optional<Clock::time_point> wait(std::size_t batch, Clock::time_point) override {
        const auto is_moving = [](const Moving& one) { return one.left > 0; };
        for (double now = 0; std::any_of(moving_.begin(), moving_.end(), is_moving);) {
            double share = 0, next = 1e18;
            for (const Moving& one : moving_) share += one.left > 0 && one.begin <= now;
            for (const Moving& one : moving_)
                if (one.left > 0) next = std::min(next, one.begin > now ? one.begin : now + one.left * share);
            for (Moving& one : moving_)
                if (one.left > 0 && one.begin <= now) {
                    one.left -= (next - now) / share;
                    if (one.left < 1e-12) one.left = 0, one.end = next;
                }
            now = next;
        }
        const Clock::time_point end{std::chrono::nanoseconds(std::llround(moving_[batch].end * 1e9))};
        world_.now = std::max(world_.now, end);
        return end;
    }
    void end() override {}
    Order order() const override { return Order::together; }
    bool pulls() const override { return false; }
    std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) override { return own; }

  private:
    struct Moving {
        double begin = 0, left = 0, end = 0;  // seconds; left: alone
    };
    World& world_;
    std::vector<Moving> moving_;
};

struct Training {
    explicit Training(World& of, RunOptions options = {})
        : Training(of, std::make_unique<Link>(of), std::move(options)) {}
    Training(World& of, std::unique_ptr<Exchange> exchange, RunOptions options)
        : world(of), run(std::move(exchange), std::vector<std::string>(of.bytes.size(), "a layer"), [&] {
              options.now = [&of] { return of.now; };
              return options;
          }()) {}

    void iterate(int times = 1) {
        for (; times > 0; --times) {
            if (world.pulls) {
                world.compute_for(world.before -
                                  std::accumulate(world.forward.begin(), world.forward.end(), 0.0));
                for (std::size_t layer = 0; layer < world.forward.size(); ++layer) {
                    REQUIRE(run.forward(layer, for_ever));
                    world.compute_for(world.forward[layer]);
                }
            } else {
                REQUIRE(run.forward(0, for_ever));
                world.pass(world.before);
            }
            REQUIRE(run.begin_backward(for_ever));
            for (std::size_t layer = world.bytes.size(); layer-- > 0;) {
                world.compute_for(world.compute[layer]);
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
    for (const bool pulls : {false, true}) {
        World world;
        world.pulls = pulls;
        Training training(world);
        CHECK(training.run.profile() == nullptr);
        training.iterate(15);
        CHECK(training.run.profile() == nullptr);
        CHECK(training.run.stats().plans == 0);
        // The last one's weights come in the next.
        training.iterate(pulls ? 2 : 1);
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
        options.planning.bucket_bytes = 1'000'000;
        Training training(world, options);
        training.iterate(30);
        const RunStats stats = training.run.stats();
        INFO(name_of(method));
        CHECK(stats.iterations == 30);
        CHECK(stats.plans == 1);
        CHECK(stats.batches == training.run.plan().backward.size());
        CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.001));
        CHECK(stats.measured.computation == Approx(0.1 + 0.182).epsilon(0.001));
        CHECK(stats.measured.overlap <= stats.measured.communication);
        CHECK(stats.measured.communication + stats.measured.computation - stats.measured.overlap ==
              Approx(stats.measured.seconds).epsilon(0.001));
    }
}

TEST_CASE("layers that compute longer beside communication are told from others") {
    for (const double contention : {0.1, 0.5, 2.0})
        for (const Method method : all_methods) {
            World world;
            world.contention = contention;
            world.line = {0.001, 0.0005, 1.5e-8};
            RunOptions options;
            options.method = method;
            options.planning.bucket_bytes = 1'000'000;
            Training training(world, options);
            training.iterate(30);
            const Profile& profile = *training.run.profile();
            INFO(name_of(method) << " " << contention);
            CHECK(profile.contention == Approx(contention).epsilon(0.05));
            for (std::size_t layer = 0; layer < world.bytes.size(); ++layer)
                CHECK(profile.layers[layer].compute == Approx(world.compute[layer]).epsilon(0.02));
            const RunStats stats = training.run.stats();
            CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.02));
        }
}

TEST_CASE("without contention an iteration is the pipeline, and what comes before") {
    std::mt19937_64 random(11);
    std::uniform_real_distribution<double> seconds(0, 1);
    for (int round = 0; round < 500; ++round) {
        Profile profile;
        profile.startup = seconds(random) / 10;
        profile.before = seconds(random);
        profile.latency = seconds(random) / 10;
        for (std::size_t layer = 0; layer < 1 + random() % 30; ++layer)
            profile.layers.push_back({"", seconds(random), seconds(random), std::nullopt});
        for (const Method method : {Method::sequential, Method::layers, Method::ibatch, Method::optimum}) {
            const Batches batches = plan(profile, method, {.direction = Direction::backward}).batches;
            CHECK(
                seconds_of_iteration(profile, {batches}) ==
                Approx(profile.before + profile.latency + seconds_of(Sums(profile), batches)).epsilon(1e-12));
        }
    }
}

TEST_CASE("batches that share the link do not make it look slow to begin") {
    for (const double per_byte : {1e-9, 1e-8, 4e-8, 2e-7})
        for (const Method method : all_methods) {
            World world;
            world.line = {0.001, 0, per_byte};
            // Many layers that are handed over while the first ones still move.
            world.bytes.assign(40, 200'000);
            world.bytes[20] = 3'000'000;
            world.compute.assign(40, 0.001);
            RunOptions options;
            options.method = method;
            options.planning.bucket_bytes = 1'000'000;
            Training training(world, std::make_unique<SharedLink>(world), options);
            training.iterate(30);
            INFO(name_of(method) << " " << per_byte);
            CHECK(training.run.profile()->latency <= 0.003);
            CHECK(training.run.profile()->startup <= 0.001);
            CHECK(training.run.profile()->layers[5].transfer == Approx(2e5 * per_byte).epsilon(0.05));
            const RunStats stats = training.run.stats();
            CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.05));
        }
}

TEST_CASE("batches that wait at once, and not for each other, do not make starts look dear") {
    for (const Pulls pulls : {Pulls::backward, Pulls::fastest}) {
        World world;
        world.pulls = true;
        world.line = {0.03, 0, 1e-9};
        world.bytes.assign(14, 500'000);
        world.compute.assign(14, 0.01);
        world.forward.assign(14, 0.005);
        RunOptions options;
        options.pulls = pulls;
        Training training(world, options);
        training.iterate(30);
        CHECK(training.run.profile()->startup <= 0.001);
        CHECK(training.run.profile()->latency == Approx(0.03).epsilon(0.05));
        const RunStats stats = training.run.stats();
        CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.02));
    }
}

TEST_CASE("the plan is of the method, under the limit") {
    World world;
    RunOptions options;
    options.planning.limit_bytes = 2'100'000;
    Training training(world, options);
    training.iterate(16);
    const Profile& profile = *training.run.profile();
    PlanOptions planning;
    planning.direction = Direction::backward;
    CHECK(training.run.plan().backward != plan(profile, Method::optimum, planning).batches);
    planning.limit_bytes = options.planning.limit_bytes;
    CHECK(training.run.plan().backward == plan(profile, Method::optimum, planning).batches);
}

TEST_CASE("a profile of an earlier run is planned from at once") {
    World world;
    Training first(world);
    first.iterate(16);
    RunOptions options;
    options.profile = parse_profile(json_of(*first.run.profile()));
    Training second(world, options);
    CHECK(second.run.plan() == first.run.plan());
    CHECK(second.run.stats().plans == 1);
    second.iterate(5);
    CHECK(second.run.plan() == first.run.plan());
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
    const IterationPlan before = training.run.plan();
    training.iterate(40);
    CHECK(training.run.stats().plans == 1);
    world.line.per_byte *= 1.02;  // too little
    training.iterate(40);
    CHECK(training.run.stats().plans == 1);
    world.line = {0.06, 0.03, 3e-8};
    training.iterate(40);
    CHECK(training.run.stats().plans == 2);
    CHECK(training.run.plan() != before);
    CHECK(training.run.profile()->startup == Approx(0.03).epsilon(0.01));
    CHECK(training.run.stats().measured.seconds ==
          Approx(training.run.stats().predicted_seconds).epsilon(0.001));
    world.line = {0.003, 0.001, 1e-8};
    training.iterate(60);
    CHECK(training.run.stats().plans == 3);
    CHECK(training.run.plan() == before);

    options.look_every.reset();
    Training blind(world, options);
    blind.iterate(16);
    world.line.per_byte *= 4;
    blind.iterate(300);
    CHECK(blind.run.stats().plans == 1);
}

TEST_CASE("times that change all the time are looked at more and more seldom") {
    World world;
    RunOptions options;
    options.measure = 3;
    options.look_every = 1;
    Training training(world, options);
    for (int iteration = 0; iteration < 600; ++iteration) {
        world.line.per_byte = iteration % 7 < 3 ? 1e-8 : 5e-8;
        training.iterate();
    }
    CHECK(training.run.stats().plans >= 3);
    CHECK(training.run.stats().plans <= 12);
}

TEST_CASE("a plan from times that were never so is made anew at the first look") {
    World world;
    RunOptions options;
    Training measured(world, options);
    measured.iterate(16);
    options.profile = *measured.run.profile();
    options.profile->startup = 0.5;
    options.look_every = 10;
    Training training(world, options);
    CHECK(training.run.plan().backward.size() == 1);
    training.iterate(12);
    const RunStats meanwhile = training.run.stats();
    CHECK(meanwhile.plans == 1);
    CHECK(meanwhile.measured.seconds > 0);  // of the plan before
    training.iterate(40);
    CHECK(training.run.stats().plans == 2);
    CHECK(training.run.plan() == measured.run.plan());
}

TEST_CASE("a look finds no change where nothing changes, however often it comes") {
    for (const bool pulls : {false, true}) {
        World world;
        world.pulls = pulls;
        RunOptions options;
        options.measure = 3;
        options.look_every = 1;
        Training training(world, options);
        training.iterate(60);
        CHECK(training.run.stats().plans == 1);
        // From an iteration of each of two plans at least.
        CHECK(training.run.profile()->startup + training.run.profile()->latency > 0);
    }
}

TEST_CASE("a refusal of the exchange is final, as other failures are") {
    World world;
    Training training(world);
    training.iterate();
    world.fails = true;
    world.failure = Status::invalid_argument;
    REQUIRE(training.run.begin_backward(for_ever));
    for (std::size_t layer = 6; layer > 0; --layer) training.run.backward(layer);
    CHECK_THROWS(training.run.backward(0));
    world.fails = false;
    CHECK_THROWS(training.run.backward(0));
    CHECK_THROWS(training.run.finish(for_ever));
    CHECK_THROWS(training.run.forward(0, for_ever));
}

TEST_CASE("ranks that plan together take the times of the slowest") {
    World world;
    RunOptions options;
    options.measure = 3;
    Training training(world, options);
    // The two iterations that are looked at, with one batch and with two: begin, backward pass, end, layers,
    // and twice as many as batches. Another rank had the gradients of layer 4 nearer to the end, by 25 ms.
    world.other = [&](std::vector<std::int64_t>& times) {
        REQUIRE(times.size() == (3 + 7 + 2) + (3 + 7 + 4));
        for (const std::size_t iteration : {0, 3 + 7 + 2}) times[iteration + 3 + 4] += 25'000'000;
    };
    training.iterate(3);
    const Profile& profile = *training.run.profile();
    CHECK(profile.layers[4].compute == Approx(0.06 + 0.025));
    CHECK(profile.layers[3].compute == Approx(0.03 - 0.025));
}

TEST_CASE("what must be alike on all ranks is in the description") {
    const RunOptions options;
    const auto differs = [&](const std::function<void(RunOptions&)>& change) {
        RunOptions other;
        change(other);
        return described(other) != described(options);
    };
    CHECK(described(options) == described(RunOptions{}));
    CHECK(differs([](RunOptions& other) { other.method = Method::layers; }));
    CHECK(differs([](RunOptions& other) { other.planning.limit_bytes = 7; }));
    CHECK(differs([](RunOptions& other) { other.planning.bucket_bytes = 7; }));
    CHECK(differs([](RunOptions& other) { other.measure = 7; }));
    CHECK(differs([](RunOptions& other) { other.look_every.reset(); }));
    CHECK(differs([](RunOptions& other) {
        other.profile = Profile{};
        other.profile->layers.push_back({"a", 1, 1, 1});
    }));
}

TEST_CASE("calls out of turn are refused, and change nothing") {
    World world;
    Training training(world);
    Run& run = training.run;
    CHECK_THAT(refusal([&] { run.forward(7, for_ever); }),
               Contains("layer 7 does not exist: the model has 7"));
    CHECK_THAT(refusal([&] { run.backward(6); }), Contains("has not begun"));
    CHECK_THAT(refusal([&] { run.finish(for_ever); }), Contains("has not begun"));
    REQUIRE(run.begin_backward(for_ever));
    CHECK_THAT(refusal([&] { run.begin_backward(for_ever); }), Contains("has already begun"));
    CHECK_THAT(refusal([&] { run.forward(0, for_ever); }), Contains("out of turn"));
    CHECK_THAT(refusal([&] { run.backward(5); }), Contains("layer 5 are out of turn: those of layer 6"));
    run.backward(6);
    CHECK_THAT(refusal([&] { run.finish(for_ever); }), Contains("layers 0 to 5 are missing"));
    for (std::size_t layer = 6; layer-- > 0;) run.backward(layer);
    CHECK_THAT(refusal([&] { run.backward(0); }), Contains("all layers were there"));
    CHECK_THAT(refusal([&] { run.forward(0, for_ever); }), Contains("the iteration is to be finished first"));
    REQUIRE(run.finish(for_ever));
    training.iterate(20);
    CHECK(run.stats().plans == 1);
}

TEST_CASE("a wait that is over early is taken up again") {
    for (const bool pulls : {false, true}) {
        World world;
        world.pulls = pulls;
        Training training(world);
        Run& run = training.run;
        REQUIRE(run.begin_backward(world.now));
        for (std::size_t layer = 7; layer-- > 0;) run.backward(layer);
        if (!pulls) {
            CHECK_FALSE(run.finish(world.now));
            CHECK_FALSE(run.finish(world.now));
        }
        CHECK(run.finish(pulls ? world.now : for_ever));
        CHECK(world.iterations_ended == 1);
        if (pulls) {
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
        world.pulls = round % 3 > 0;
        if (options.method != Method::mg_wfbp && round % 3 == 1) options.pulls = Pulls::forward;
        world.pull_line = {world.line.latency * between(1, 2), startup * between(0.5, 2),
                           world.line.per_byte * between(0.7, 1.5)};
        world.forward.resize(world.bytes.size());
        for (double& seconds : world.forward) seconds = between(1e-4, 0.1);
        world.before = std::accumulate(world.forward.begin(), world.forward.end(), between(1e-4, 0.05));
        Training training(world, options);
        training.iterate(20);
        const RunStats stats = training.run.stats();
        INFO(round << " " << name_of(options.method) << " latency " << world.line.latency << " startup "
                   << world.line.startup << " per byte " << world.line.per_byte);
        CHECK(stats.measured.seconds == Approx(stats.predicted_seconds).epsilon(0.02));
    }
}
