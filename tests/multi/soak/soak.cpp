// soak: every collective in every way, and messages between two ranks beside them, for as long as you like,
// every element checked, memory flat.
//
//     hocket-run -n 4 soak --seconds 600
//
// One communicator lives for the whole run. Beside it, in a second thread, others come and go: each episode
// has a few new ones, of another topology, schedule, executor or provider. Between the episodes, when they
// are gone and nothing is under way, memory, descriptors and threads are counted. The seed determines the
// operations, on all ranks alike; the time determines only the number of episodes.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/multi/soak/stream.hpp"
#include "tests/multi/soak/usage.hpp"

namespace hocket::soak {
namespace {

using Clock = std::chrono::steady_clock;

// Guests make all their plans anew, which takes longer than to run them.
constexpr std::uint64_t steps_of_an_episode = 200, guest_steps = 10;
constexpr std::chrono::seconds between_reports{30};

struct Options {
    double seconds = 600;
    std::uint64_t seed = 1, from = 1;
    std::size_t most_bytes = 4 << 20;

    std::string command() const { return fmt::format("soak --seed {} --most {}", seed, most_bytes); }
};

hkt_comm_options any_kind_of_communicator(Chance& chance, int ranks) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    if (ranks == 4 && chance.one_in(3)) options.topology = chance.one_in(2) ? "2x2" : "bcube(2,2)";
    if (chance.one_in(4)) options.schedule = chance.one_in(2) ? "ring" : "blueconnect";
    if (chance.one_in(2)) options.executor = HKT_EXECUTOR_INTERPRETER;
    return options;
}

// In every fourth episode all messages of the guests go by tcp, unless the environment names a provider. No
// other thread may be reading the environment.
void choose_provider(Chance chance) {
    static const char* const name = "HOCKET_PROVIDER_FOR_ALL";
    static const bool is_given = std::getenv(name) != nullptr && *std::getenv(name) != '\0';
    if (!is_given) setenv(name, chance.one_in(4) ? "tcp" : "", 1);
}

// The communicators of one episode, two of them side by side for a part of it.
Tally run_guests(const Options& options, std::uint64_t episode, int ranks) {
    Chance chance{options.seed, episode};
    Tally tally;
    std::unique_ptr<Stream> guests[2];
    const auto leave = [&](std::unique_ptr<Stream>& guest) {
        if (guest) tally.add(guest->tally());
        guest.reset();
    };
    for (std::uint64_t step = 0; step < guest_steps; ++step) {
        std::unique_ptr<Stream>& guest = guests[chance.below(2)];
        if (!guest || chance.one_in(8)) {
            leave(guest);
            const std::size_t most = std::max<std::size_t>(chance.log_uniform(options.most_bytes / 2), 64);
            guest = std::make_unique<Stream>(
                any_kind_of_communicator(chance, ranks),
                Stream::Shape{options.seed, step + 1, options.command(), most, false});
            ++tally.counts["communicators"];
        }
        guest->run(episode, step);
    }
    for (auto& guest : guests) leave(guest);
    return tally;
}

std::string text_of(const Tally& tally) {
    std::string text = fmt::format("{} operations of {:.1f} MiB", tally.operations,
                                   static_cast<double>(tally.bytes) / (1 << 20));
    for (const auto& [what, count] : tally.counts) text += fmt::format(", {} {}", count, what);
    return text;
}

class Soak {
  public:
    explicit Soak(const Options& options)
        : options_(options),
          lasting_(HKT_COMM_OPTIONS_INIT, {options.seed, 0, options.command(), options.most_bytes, true}) {}

    int run() {
        say(fmt::format("seed {}, {} ranks, {}, topology {}, up to {} bytes", options_.seed, ranks_,
                        lasting_.info("provider"), lasting_.info("topology"), options_.most_bytes));
        lasting_.warm_up();
        say(fmt::format("warm after {:.1f} s", seconds()));
        auto reported = Clock::now();
        start_ = Clock::now();
        std::uint64_t episode = options_.from;
        for (; lasting_.agree(seconds() < options_.seconds); ++episode) {
            run_episode(episode);
            history_.add(Usage::now());
            if (Clock::now() - reported < between_reports) continue;
            reported += between_reports;
            say(fmt::format("{:.0f} s, {} episodes, {} operations; {}", seconds(),
                            episode - options_.from + 1, total().operations, history_.last().text()));
        }
        say(fmt::format("{} episodes in {:.0f} s: {}", episode - options_.from, seconds(), text_of(total())));
        return judge();
    }

  private:
    void run_episode(std::uint64_t episode) {
        Tally guests;
        choose_provider(Chance{options_.seed, episode});
        std::thread other([&] { guests = run_guests(options_, episode, ranks_); });
        for (std::uint64_t step = 0; step < steps_of_an_episode; ++step) lasting_.run(episode, step);
        other.join();
        guests_.add(guests);
    }

    int judge() const {
        fmt::print("at the start: {}\nat the end:   {}\n", history_.first().text(), history_.last().text());
        const std::string growth = history_.growth();
        if (growth.empty()) {
            fmt::print("every element was right; {}\n", history_.is_judged()
                                                            ? "memory, descriptors and threads are flat"
                                                            : "too short to judge memory");
            return 0;
        }
        fmt::print(stderr, "soak: rank {}, {}: {}", lasting_.rank(), options_.command(), growth);
        return 1;
    }

    Tally total() const {
        Tally total = guests_;
        total.add(lasting_.tally());
        return total;
    }

    double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
    void say(const std::string& line) const {
        if (lasting_.rank() == 0) fmt::print("{}\n", line), std::fflush(stdout);
    }

    const Options options_;
    Clock::time_point start_ = Clock::now();
    Stream lasting_;
    const int ranks_ = lasting_.ranks();
    Tally guests_;
    UsageHistory history_;
};

int main_of(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Runs every collective in every way, checks every element, and whether memory stays flat.\n"
        "Start it with hocket-run.");
    app.add_option("--seconds", options.seconds, "how long, after the warm-up")->capture_default_str();
    app.add_option("--seed", options.seed, "what is done follows from it")->capture_default_str();
    app.add_option("--from", options.from, "the first episode")->capture_default_str();
    app.add_option("--most", options.most_bytes, "bytes of the largest operation")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::size_t{64}, std::size_t{1} << 40))
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    return Soak(options).run();
}

}  // namespace
}  // namespace hocket::soak

int main(int argc, char** argv) {
    // Returns freed memory to the kernel: otherwise malloc keeps tens of MiB for each thread, an amount that
    // varies and would hide a leak.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    return hocket::soak::main_of(argc, argv);
}
