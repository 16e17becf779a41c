#include "tests/params/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/eventually.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {
namespace {

using namespace std::chrono_literals;

constexpr int checkpoint_every = 5;
constexpr Milliseconds patience = 40s;

struct Round {
    double time;
    std::uint64_t clock, least, most;
    struct Behind {
        int slot;
        std::uint64_t first, least, most;
    };
    std::vector<Behind> behind;
};

// "clock 5 weights 5-5 behind 1:0-3-4"
std::optional<Round> round_of(const Log::Line& line) {
    if (!line.text.starts_with("clock ")) return std::nullopt;
    Round round{line.time, 0, 0, 0, {}};
    std::istringstream text(line.text);
    std::string word;
    char sign;
    text >> word >> round.clock >> word >> round.least >> sign >> round.most >> word;
    for (Round::Behind behind;
         text >> behind.slot >> sign >> behind.first >> sign >> behind.least >> sign >> behind.most;)
        round.behind.push_back(behind);
    return round;
}

std::vector<Round> rounds_of(const Log& log) {
    std::vector<Round> rounds;
    for (const Log::Line& line : log.lines())
        if (const auto round = round_of(line)) rounds.push_back(*round);
    return rounds;
}

}  // namespace

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- Logs ------------------------------------------------------------------------------------------------

void Log::read() {
    std::ifstream stream(file_);
    stream.seekg(static_cast<std::streamoff>(offset_));
    for (std::string line; std::getline(stream, line) && !stream.eof();) {
        offset_ += line.size() + 1;
        const auto space = line.find(' ');
        char* end = nullptr;
        const double time = std::strtod(line.c_str(), &end);
        const bool has_time = space != std::string::npos && end == line.c_str() + space;
        lines_.push_back(has_time ? Line{time, line.substr(space + 1)} : Line{0, line});
    }
}

std::optional<std::string> Log::after(const std::string& prefix) const {
    for (const Line& line : lines_)
        if (line.text.starts_with(prefix)) return line.text.substr(prefix.size());
    return std::nullopt;
}

// Of the rounds only the last ones.
std::string Log::text() const {
    std::string text = file_ + ":\n";
    for (std::size_t i = 0; i < lines_.size(); ++i)
        if (!lines_[i].text.starts_with("clock ") || i + 4 >= lines_.size())
            text += fmt::format("    {:.4f} {}\n", lines_[i].time, lines_[i].text);
    return text;
}

// ---- Beginning -------------------------------------------------------------------------------------------

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)), servers_(static_cast<std::size_t>(options_.servers)) {
    std::filesystem::create_directory(folder_.path() + "/checkpoints");
    Listener first;
    servers_[0].at = fmt::format("127.0.0.1:{}", first.port());
    first.close();
    for (int index = 0; index < options_.servers; ++index) start_server(index, false);
    for (int i = 0; i < options_.workers; ++i) add_worker();
    for (const int slot : living()) await_worker(slot);
}

void Cluster::start_server(int index, bool is_restored) {
    Server& server = servers_.at(static_cast<std::size_t>(index));
    const std::string log = fmt::format("{}/server-{}-{}", folder_.path(), index, server.starts++);
    std::vector<std::string> command{PARAMS_PROCESS, "server", "--log", log};
    const auto add = [&](const std::string& name, auto value) {
        command.push_back(name);
        command.push_back(fmt::format("{}", value));
    };
    if (index == 0)
        add("--listen", servers_[0].at);
    else
        add("--first", servers_[0].at);
    add("--servers", options_.servers);
    if (options_.writes_checkpoints) add("--checkpoints", folder_.path() + "/checkpoints");
    add("--every", checkpoint_every);
    if (is_restored) {
        command.push_back("--restore");
        add("--index", index);
    }
    add("--silence-ms", options_.silence.count());
    add("--return-ms", options_.return_for.count());
    add("--timeout-ms", options_.timeout.count());
    add("--usage-ms", options_.usage_ms);
    add("--deadline-s", options_.deadline_s);
    server.log = std::make_unique<Log>(log);
    server.process = std::make_unique<Process>(command);
    const bool serves = eventually([&] {
        server.log->read();
        return server.log->after("serves at ").has_value();
    });
    if (!serves) throw std::runtime_error("a server does not come:\n" + logs());
    server.at = *server.log->after("serves at ");
}

int Cluster::add_worker() {
    const int slot = next_slot_++;
    Worker& worker = workers_[slot];
    const std::string log = fmt::format("{}/worker-{}", folder_.path(), slot);
    std::vector<std::string> command{PARAMS_PROCESS, "worker", "--log", log};
    const auto add = [&](const std::string& name, auto value) {
        command.push_back(name);
        command.push_back(fmt::format("{}", value));
    };
    add("--first", servers_[0].at);
    add("--slot", slot);
    add("--rack", slot % 2);
    add("--workers", options_.workers);
    add("--staleness", options_.staleness);
    add("--tree", options_.tree);
    add("--until", folder_.path() + "/until");
    add("--sleep-ms", options_.sleep_ms);
    add("--silence-ms", options_.silence.count());
    add("--timeout-ms", options_.timeout.count());
    add("--usage-ms", slot == 0 ? options_.usage_ms : 0);
    add("--deadline-s", options_.deadline_s);
    worker.log = std::make_unique<Log>(log);
    worker.process = std::make_unique<Process>(command);
    return slot;
}

void Cluster::await_worker(int slot) {
    const auto has_come = [&] {
        read_logs();
        return rounds_of(*workers_.at(slot).log).size() >= 3;
    };
    if (!eventually(has_come, patience))
        throw std::runtime_error(fmt::format("worker {} does not come:\n{}", slot, logs()));
}

// Throws if one of those that should live has failed.
void Cluster::read_logs() {
    for (auto& [slot, worker] : workers_) {
        if (!worker.process) continue;
        worker.log->read();
        if (worker.gone_at == 0)
            for (const char* const sign : {"error ", "WRONG"})
                if (const auto why = worker.log->after(sign))
                    throw std::runtime_error(fmt::format("worker {}: {}{}\n{}", slot, sign, *why, logs()));
    }
    for (Server& server : servers_) {
        if (!server.process) continue;
        server.log->read();
        if (const auto why = server.log->after("error "))
            throw std::runtime_error(fmt::format("a server: {}\n{}", *why, logs()));
    }
}

std::string Cluster::logs() const {
    std::string text;
    for (const Server& server : servers_)
        if (server.log) text += server.log->text();
    for (const auto& [slot, worker] : workers_)
        if (worker.process) text += worker.log->text();
    return text;
}

// ---- Faults ----------------------------------------------------------------------------------------------

std::vector<int> Cluster::living() const {
    std::vector<int> result;
    for (const auto& [slot, worker] : workers_)
        if (worker.process && worker.gone_at == 0) result.push_back(slot);
    return result;
}

void Cluster::kill_worker(int slot) {
    Worker& worker = workers_.at(slot);
    worker.gone_at = seconds_now();
    worker.process.reset();
    worker.log->read();
}

void Cluster::expect_no_more_of(int slot) {
    workers_.at(slot).gone_at = seconds_now();
}

void Cluster::signal_worker(int slot, int signal) const {
    kill(workers_.at(slot).process->pid(), signal);
}

std::uint64_t Cluster::clock_of(int slot) {
    const Worker& worker = workers_.at(slot);
    worker.log->read();
    const auto rounds = rounds_of(*worker.log);
    return rounds.empty() ? 0 : rounds.back().clock;
}

std::string Cluster::error_of(int slot, Milliseconds deadline) {
    Worker& worker = workers_.at(slot);
    if (worker.gone_at == 0) expect_no_more_of(slot);
    std::optional<std::string> error;
    eventually(
        [&] {
            worker.log->read();
            return (error = worker.log->after("error ")).has_value();
        },
        deadline);
    worker.process.reset();
    return error.value_or("(it has no error)");
}

void Cluster::kill_server(int index) {
    servers_.at(static_cast<std::size_t>(index)).process.reset();
    has_lost_servers_ = true;
}

void Cluster::replace_server(int index) {
    start_server(index, true);
}

void Cluster::signal_server(int index, int signal) const {
    kill(servers_.at(static_cast<std::size_t>(index)).process->pid(), signal);
}

const Log& Cluster::log_of_server(int index) {
    Log& log = *servers_.at(static_cast<std::size_t>(index)).log;
    log.read();
    return log;
}

void Cluster::await_checkpoints() {
    const bool are_there = eventually([&] {
        for (int index = 0; index < options_.servers; ++index)
            if (!std::filesystem::exists(
                    fmt::format("{}/checkpoints/server-{}.checkpoint", folder_.path(), index)))
                return false;
        return true;
    });
    if (!are_there) throw std::runtime_error("no checkpoint comes:\n" + logs());
}

// ---- Afterwards ------------------------------------------------------------------------------------------

double Cluster::seconds_to_go_on(double since) {
    constexpr std::size_t enough = 8;
    std::map<int, double> longest;
    const auto have_gone_on = [&] {
        read_logs();
        const auto alive = living();
        return std::all_of(alive.begin(), alive.end(), [&](int slot) {
            double before = since;
            std::size_t count = 0;
            for (const Round& round : rounds_of(*workers_.at(slot).log)) {
                if (round.time <= since) continue;
                longest[slot] = std::max(longest[slot], round.time - before);
                before = round.time;
                ++count;
            }
            return count >= enough;
        });
    };
    if (!eventually(have_gone_on, patience)) throw std::runtime_error("somebody hangs:\n" + logs());
    double result = 0;
    for (const int slot : living()) result = std::max(result, longest[slot]);
    return result;
}

void Cluster::finish() {
    std::uint64_t clock = 0;
    for (const int slot : living()) clock = std::max(clock, clock_of(slot));
    // So late that nobody has come there before the file is seen.
    const std::uint64_t end = clock + 60 + 2 * options_.staleness;
    std::ofstream(folder_.path() + "/until.new") << end;
    std::filesystem::rename(folder_.path() + "/until.new", folder_.path() + "/until");
    const auto have_ended = [&] {
        read_logs();
        const auto alive = living();
        return std::all_of(alive.begin(), alive.end(),
                           [&](int slot) { return workers_.at(slot).log->after("end ").has_value(); });
    };
    if (!eventually(have_ended, patience)) throw std::runtime_error("somebody does not end:\n" + logs());
    for (const int slot : living()) check_worker(slot, end);
    for (const int slot : living()) {
        const Finished finished = workers_.at(slot).process->finish(10s);
        CHECK(finished.exit_code == 0);
        workers_.at(slot).log->read();
    }
    for (Server& server : servers_) {
        if (!server.process) continue;
        const Finished finished = server.process->finish(10s);
        server.log->read();
        INFO(server.log->text());
        CHECK(finished.exit_code == 0);
    }
}

// All have the same weights at the end; and weights lack only updates of those that have ended, no more of
// them than must be.
void Cluster::check_worker(int slot, std::uint64_t end) {
    const Log& log = *workers_.at(slot).log;
    const std::string same = *workers_.at(living().front()).log->after("end ");
    CHECK(log.after("end ") == same);
    CHECK(same.starts_with(fmt::format("clock {} ", end)));
    std::vector<std::string> faults;
    const auto rounds = rounds_of(log);
    for (const Round& round : rounds)
        for (const auto& behind : round.behind) {
            const double gone_at = workers_.at(behind.slot).gone_at;
            if (gone_at == 0 || round.time < gone_at)
                faults.push_back(fmt::format("at clock {} the updates of worker {}, which lives, are not in",
                                             round.clock, behind.slot));
        }
    for (const auto& behind : rounds.back().behind) {
        const std::uint64_t pulled = clock_of(behind.slot), staleness = options_.staleness;
        const std::uint64_t least = has_lost_servers_ || pulled < staleness ? 0 : pulled - staleness;
        if (behind.least < std::min(least, end) || behind.most > pulled + 1)
            faults.push_back(
                fmt::format("worker {} had pulled weights of clock {}, and is in with updates to {} to {}",
                            behind.slot, pulled, behind.least, behind.most));
    }
    INFO(logs());
    CHECK(faults == std::vector<std::string>());
}

}  // namespace hocket::test
