// One process of a parameter service, for tests to break: a server, or a worker that checks all weights that
// it pulls. It writes its actions to its log, one a line: "TIME what", with seconds of the monotonic clock.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/params/server/server.hpp"
#include "runtime/params/worker/worker.hpp"
#include "tests/multi/soak/usage.hpp"
#include "tests/params/updates.hpp"
#include "tests/runtime/params/adding.hpp"

namespace {

using namespace hocket;
using namespace hocket::params;
using namespace std::chrono_literals;
using Time = transport::Clock;
using test::Weights;

struct Options {
    std::string listen = "127.0.0.1:0", first, secret = "a secret", checkpoints, rack, until, log;
    std::string tree = "direct";
    std::uint32_t servers = 1, workers = 1, slot = 0, index = 0, every = 10;
    Clock staleness = 0, rounds = 0;
    unsigned sleep_ms = 0, deadline_s = 120;
    int timeout_ms = 20000, silence_ms = 2000, return_ms = 10000, death_ms = 300, usage_ms = 0;
    bool restore = false, forks = false;
};

template <typename... Arguments>
void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    fmt::print("{:.4f} {}\n", now.count(), fmt::format(text, std::forward<Arguments>(arguments)...));
    std::fflush(stdout);
}

// Takes a sample now and then.
class Watch {
  public:
    explicit Watch(int every_ms) : every_(every_ms) {}
    void look() {
        if (every_ == 0ms || Time::now() < next_) return;
        next_ = Time::now() + every_;
        samples_.push_back(soak::Usage::now());
    }
    void report() const {
        if (every_ == 0ms) return;
        soak::UsageHistory history;
        for (std::size_t i = 0; i < samples_.size(); ++i) {
            soak::Usage sample = samples_[i];
            if (i >= samples_.size() / 2) sample.descriptors -= most_links_made_anew;
            history.add(sample);
        }
        say("usage first: {}", samples_.front().text());
        say("usage last: {}", samples_.back().text());
        if (!history.is_judged()) say("usage was not seen for long enough");
        if (const std::string growth = history.growth(); !growth.empty()) say("usage grew: {}", growth);
    }

  private:
    // Links to parents and children are made anew as others come and go. They may be missing in an early
    // sample, and in no late one. A leak would be of a descriptor for each of the many that come.
    static constexpr std::int64_t most_links_made_anew = 4;

    const std::chrono::milliseconds every_;
    Time::time_point next_{};
    std::vector<soak::Usage> samples_;
};

// ---- A server --------------------------------------------------------------------------------------------

void serve(const Options& asked) {
    ServerOptions options;
    options.listen = transport::Endpoint::parse(asked.listen).value();
    if (!asked.first.empty()) options.join = transport::Endpoint::parse(asked.first).value();
    options.servers = asked.servers;
    options.secret = asked.secret;
    options.checkpoints.folder = asked.checkpoints;
    options.checkpoints.every = asked.every;
    options.checkpoints.restore = asked.restore;
    if (asked.restore) options.checkpoints.index = asked.index;
    options.timeout = std::chrono::milliseconds(asked.timeout_ms);
    options.terms.silence = std::chrono::milliseconds(asked.silence_ms);
    options.terms.return_for = std::chrono::milliseconds(asked.return_ms);
    options.terms.death = std::chrono::milliseconds(asked.death_ms);
    options.make_calculator = test::adding;
    Server server(std::move(options));
    say("serves at {}", server.endpoint().text());
    Watch watch(asked.usage_ms);
    while (!server.wait(Time::now() + 50ms)) watch.look();
    watch.report();
    say("done {}", server.stats());
}

// ---- A worker --------------------------------------------------------------------------------------------

// The clock at which all workers end, once the test has written it.
std::optional<Clock> end_in(const std::string& file) {
    Clock end;
    if (std::ifstream stream(file); stream >> end) return end;
    return std::nullopt;
}

class Training {
  public:
    explicit Training(const Options& options)
        : asked_(options),
          job_(test::job_of_faults(options.workers, options.staleness, options.tree)),
          weights_(job_),
          client_(client_options()) {
        firsts_.emplace(asked_.slot, client_.clock());
        say("joined number {} first {}", client_.number(), client_.clock());
        if (asked_.forks && fork() == 0) _exit(static_cast<int>(sleep(20)));
    }

    void run() {
        Watch watch(asked_.usage_ms);
        while (!has_ended()) {
            push();
            client_.tick();
            pull(asked_.staleness);
            watch.look();
            std::this_thread::sleep_for(std::chrono::milliseconds(asked_.sleep_ms));
        }
        pull(0);
        say("end clock {} hash {:x}", client_.clock(), weights_.hash());
        watch.report();
    }

  private:
    WorkerOptions client_options() const {
        WorkerOptions options;
        options.server = transport::Endpoint::parse(asked_.first).value();
        options.secret = asked_.secret;
        options.job = job_;
        options.number = asked_.slot;
        options.rack = asked_.rack;
        options.timeout = std::chrono::milliseconds(asked_.timeout_ms);
        options.silence = std::chrono::milliseconds(asked_.silence_ms);
        options.make_calculator = test::adding;
        return options;
    }

    bool has_ended() const {
        if (asked_.rounds > 0) return client_.clock() >= firsts_.at(asked_.slot) + asked_.rounds;
        const auto end = end_in(asked_.until);
        return end && client_.clock() >= *end;
    }

    void push() {
        weights_.make_update(asked_.slot, client_.clock());
        const auto pointers = weights_.pointers();
        const std::vector<const std::byte*> gradients(pointers.begin(), pointers.end());
        client_.wait(client_.push(0, gradients), Time::time_point::max());
    }

    void pull(Clock staleness) {
        const Clock clock = client_.clock(), least = clock > staleness ? clock - staleness : 0;
        client_.wait(client_.pull(0, weights_.pointers(), staleness), Time::time_point::max());
        const auto seen = weights_.read(client_.layout(), firsts_);
        const auto own = seen.at(asked_.slot);
        if (own.least < std::max(least, own.first))
            throw std::runtime_error(
                fmt::format("weights of clock {} where {} or later was asked for", own.least, least));
        if (own.most > clock) throw std::runtime_error("the weights have updates that were not pushed");
        // Weights of rounds before the worker's own first one do not show their clock by its updates.
        const Clock all = own.least > own.first ? own.least : std::min(least, own.first);
        const Clock some = own.most > own.first ? own.most : all;
        // A worker that is behind must have ended, which the test checks. The log has a list of them whenever
        // it changes.
        std::string behind;
        for (const auto& [slot, one] : seen)
            if (one.least < std::max(all, one.first) || one.most < some)
                behind += fmt::format(" {}:{}-{}-{}", slot, one.first, one.least, one.most);
        say("clock {} weights {}-{}{}", clock, own.least, own.most,
            behind == behind_ ? "" : " behind" + behind);
        behind_ = behind;
    }

    const Options& asked_;
    const Job job_;
    Weights weights_;
    Client client_;
    std::map<std::uint64_t, Clock> firsts_;
    std::string behind_;  // as logged last
};

}  // namespace

int main(int count, char** words) {
    Options options;
    CLI::App app("A server or a worker of a parameter service that adds integers");
    auto* const server = app.add_subcommand("server");
    auto* const worker = app.add_subcommand("worker");
    app.require_subcommand(1);
    for (CLI::App* const role : {server, worker}) {
        role->option_defaults()->take_last();
        role->add_option("--log", options.log)->required();
        role->add_option("--first", options.first, "where the first server is");
        role->add_option("--secret", options.secret);
        role->add_option("--timeout-ms", options.timeout_ms);
        role->add_option("--silence-ms", options.silence_ms);
        role->add_option("--deadline-s", options.deadline_s, "a signal ends the process after that time");
        role->add_option("--usage-ms", options.usage_ms,
                         "how often to look at memory, descriptors and threads");
    }
    server->add_option("--listen", options.listen);
    server->add_option("--servers", options.servers);
    server->add_option("--checkpoints", options.checkpoints);
    server->add_option("--every", options.every);
    server->add_flag("--restore", options.restore);
    server->add_option("--index", options.index);
    server->add_option("--return-ms", options.return_ms);
    server->add_option("--death-ms", options.death_ms);
    worker->add_option("--slot", options.slot)->required();
    worker->add_option("--workers", options.workers);
    worker->add_option("--staleness", options.staleness);
    worker->add_option("--tree", options.tree);
    worker->add_option("--rack", options.rack);
    worker->add_option("--rounds", options.rounds, "of its own");
    worker->add_option("--until", options.until, "a file that will have the clock to end at");
    worker->add_flag("--forks", options.forks, "has a child, which goes on for long");
    worker->add_option("--sleep-ms", options.sleep_ms, "in each round");
    CLI11_PARSE(app, count, words);

    if (!std::freopen(options.log.c_str(), "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) return 2;
    alarm(options.deadline_s);
    try {
        *server ? serve(options) : Training(options).run();
        return 0;
    } catch (const Error& error) {
        say("error {}: {}", static_cast<int>(error.status()), error.what());
        return 3;
    } catch (const std::exception& error) {
        say("WRONG: {}", error.what());
        return 4;
    }
}
