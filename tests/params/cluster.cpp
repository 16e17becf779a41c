#include "tests/params/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"
#include "tests/support/unused_port.hpp"

namespace hocket::test {
namespace {

using namespace std::chrono_literals;

constexpr int checkpoint_every = 5;
constexpr std::uint64_t rounds_to_end = 50;
constexpr Milliseconds patience = 40s;

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
        take(has_time ? Line{time, line.substr(space + 1)} : Line{0, line});
    }
}

// "clock 5 weights 5-5 behind 1:0-3-4"
void Log::take(const Line& line) {
    if (!line.text.starts_with("clock ")) return lines_.push_back(line);
    Round& round = rounds_.emplace_back(Round{line.time, 0, 0, 0});
    std::istringstream text(line.text);
    std::string word;
    char sign;
    text >> word >> round.clock >> word >> round.least >> sign >> round.most;
    if (!(text >> word)) return;
    auto& behind = behind_.emplace_back(line.time, std::vector<Behind>()).second;
    for (Behind one; text >> one.slot >> sign >> one.first >> sign >> one.least >> sign >> one.most;)
        behind.push_back(one);
}

std::optional<std::string> Log::after(const std::string& prefix) const {
    for (const Line& line : lines_)
        if (line.text.starts_with(prefix)) return line.text.substr(prefix.size());
    return std::nullopt;
}

// Includes only the last rounds.
std::string Log::text() const {
    std::string text = file_ + ":\n";
    for (const Line& line : lines_) text += fmt::format("    {:.4f} {}\n", line.time, line.text);
    for (std::size_t i = rounds_.size() - std::min<std::size_t>(rounds_.size(), 4); i < rounds_.size(); ++i)
        text += fmt::format("    {:.4f} clock {} weights {}-{}\n", rounds_[i].time, rounds_[i].clock,
                            rounds_[i].least, rounds_[i].most);
    return text;
}

// ---- Beginning -------------------------------------------------------------------------------------------

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)), servers_(static_cast<std::size_t>(options_.servers)) {
    std::filesystem::create_directory(folder_.path() + "/checkpoints");
    // Others start there when it is gone, so the port must stay free until then.
    servers_[0].at =
        fmt::format("{}:{}", options_.address ? options_.address(0) : "127.0.0.1", unused_port());
    for (int index = 0; index < options_.servers; ++index) start_server(index, false);
    for (int i = 0; i < options_.workers; ++i) add_worker();
    for (const int slot : living()) await_worker(slot);
}

std::vector<std::string> Cluster::command(int host, const std::string& role, const std::string& log) const {
    std::vector<std::string> words;
    if (options_.enter) words = options_.enter(host);
    words.insert(words.end(), {PARAMS_PROCESS, role, "--log", log});
    return words;
}

void Cluster::start_server(int index, bool is_restored) {
    Server& server = servers_.at(static_cast<std::size_t>(index));
    const std::string log = fmt::format("{}/server-{}-{}", folder_.path(), index, server.starts++);
    std::vector<std::string> words = command(index, "server", log);
    const auto add = [&](const std::string& name, auto value) {
        words.push_back(name);
        words.push_back(fmt::format("{}", value));
    };
    if (index == 0)
        add("--listen", servers_[0].at);
    else
        add("--first", servers_[0].at);
    if (index > 0 && options_.address) add("--listen", options_.address(index) + ":0");
    add("--servers", options_.servers);
    if (options_.writes_checkpoints) add("--checkpoints", folder_.path() + "/checkpoints");
    add("--every", checkpoint_every);
    if (is_restored) {
        words.push_back("--restore");
        add("--index", index);
    }
    add("--silence-ms", options_.silence.count());
    add("--return-ms", options_.return_for.count());
    add("--death-ms", options_.death.count());
    add("--timeout-ms", options_.timeout.count());
    add("--usage-ms", options_.usage_ms);
    add("--deadline-s", options_.deadline_s);
    server.log = std::make_unique<Log>(log);
    server.process = std::make_unique<Process>(words);
    const bool serves = eventually(
        [&] {
            server.log->read();
            return server.log->after("serves at ").has_value();
        },
        patience);
    if (!serves) throw std::runtime_error("a server does not come:\n" + logs());
    server.at = *server.log->after("serves at ");
}

int Cluster::add_worker(const std::vector<std::string>& more_options) {
    const int slot = next_slot_++;
    Worker& worker = workers_[slot];
    const std::string log = fmt::format("{}/worker-{}", folder_.path(), slot);
    std::vector<std::string> words = command(options_.servers + slot, "worker", log);
    const auto add = [&](const std::string& name, auto value) {
        words.push_back(name);
        words.push_back(fmt::format("{}", value));
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
    words.insert(words.end(), more_options.begin(), more_options.end());
    worker.log = std::make_unique<Log>(log);
    worker.process = std::make_unique<Process>(words);
    return slot;
}

void Cluster::await_worker(int slot) {
    const auto has_come = [&] {
        read_logs();
        return workers_.at(slot).log->rounds().size() >= 3;
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

void Cluster::await_end(int slot) {
    Worker& worker = workers_.at(slot);
    const auto has_ended = [&] {
        read_logs();
        return worker.log->after("end ").has_value();
    };
    if (!eventually(has_ended, patience))
        throw std::runtime_error(fmt::format("worker {} does not end:\n{}", slot, logs()));
    for (const Log::Line& line : worker.log->lines())
        if (line.text.starts_with("end ")) worker.gone_at = line.time;
    if (worker.process->finish(patience).exit_code != 0)
        throw std::runtime_error(fmt::format("worker {} ends badly:\n{}", slot, logs()));
    worker.process.reset();
}

std::uint64_t Cluster::clock_of(int slot) {
    const Worker& worker = workers_.at(slot);
    worker.log->read();
    const auto& rounds = worker.log->rounds();
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
    const bool are_there = eventually(
        [&] {
            for (int index = 0; index < options_.servers; ++index)
                if (!std::filesystem::exists(
                        fmt::format("{}/checkpoints/server-{}.checkpoint", folder_.path(), index)))
                    return false;
            return true;
        },
        patience);
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
            for (const Log::Round& round : workers_.at(slot).log->rounds()) {
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
    // One worker is stopped until the file is there. The others get a few rounds further than it at most, so
    // that none has passed the end when it sees the file, however long this process waits for the machine.
    const int held = living().front();
    signal_worker(held, SIGSTOP);
    const std::uint64_t end = clock_of(held) + rounds_to_end + 2 * options_.staleness;
    std::ofstream(folder_.path() + "/until.new") << end;
    std::filesystem::rename(folder_.path() + "/until.new", folder_.path() + "/until");
    signal_worker(held, SIGCONT);
    const auto have_ended = [&] {
        read_logs();
        const auto alive = living();
        return std::all_of(alive.begin(), alive.end(),
                           [&](int slot) { return workers_.at(slot).log->after("end ").has_value(); });
    };
    if (!eventually(have_ended, patience)) throw std::runtime_error("somebody does not end:\n" + logs());
    for (const int slot : living()) require_right(slot, end);
    const auto require_end = [&](Process& process, Log& log) {
        const Finished finished = process.finish(patience);
        log.read();
        if (finished.exit_code != 0)
            throw std::runtime_error(
                fmt::format("a process ends with {}:\n{}", finished.exit_code, log.text()));
    };
    for (const int slot : living()) require_end(*workers_.at(slot).process, *workers_.at(slot).log);
    for (Server& server : servers_)
        if (server.process) require_end(*server.process, *server.log);
}

// Checks that all have the same weights at the end, and that the weights lack only updates of workers that
// have ended, and no more of them than necessary.
void Cluster::require_right(int slot, std::uint64_t end) {
    const Log& log = *workers_.at(slot).log;
    const std::string same = *workers_.at(living().front()).log->after("end ");
    std::string faults;
    if (log.after("end ") != same || !same.starts_with(fmt::format("clock {} ", end)))
        faults += fmt::format("it ends with {}, another one with {}\n", *log.after("end "), same);
    for (const auto& [time, behind] : log.behind())
        for (const Log::Behind& one : behind)
            if (workers_.at(one.slot).gone_at == 0 || time < workers_.at(one.slot).gone_at)
                faults += fmt::format("at {:.4f} the updates of worker {}, which lives, are not in\n", time,
                                      one.slot);
    const auto last = log.behind().empty() ? std::vector<Log::Behind>() : log.behind().back().second;
    for (const Log::Behind& behind : last) {
        const std::uint64_t pulled = clock_of(behind.slot), staleness = options_.staleness;
        const std::uint64_t least = has_lost_servers_ || pulled < staleness ? 0 : pulled - staleness;
        if (behind.least < std::min(least, end) || behind.most > pulled + 1)
            faults +=
                fmt::format("worker {} had pulled weights of clock {}, and is in with updates to {} to {}\n",
                            behind.slot, pulled, behind.least, behind.most);
    }
    if (!faults.empty()) throw std::runtime_error(fmt::format("worker {}: {}{}", slot, faults, logs()));
}

}  // namespace hocket::test
