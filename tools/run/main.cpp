// hocket-run: starts the ranks of a job on this host, shows their output, and makes sure that all of them
// end.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "dsl/base/runs.hpp"
#include "tools/run/output.hpp"
#include "tools/run/process.hpp"
#include "tools/run/recordings.hpp"
#include "tools/run/report.hpp"
#include "tools/run/trace.hpp"
#include "tools/tool.hpp"
#include "tools/version_option.hpp"

namespace hocket::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int timeout_exit_code = 124;  // like timeout(1); the next one like timeout's own failures
constexpr int output_exit_code = 125;
constexpr Seconds look_for_answers{0.1};
constexpr Seconds answer_wait{2};   // for the ranks' recordings to arrive
constexpr Seconds kill_wait{1};     // between SIGTERM and SIGKILL
constexpr Seconds give_up_wait{5};  // after SIGKILL: a process stuck in the kernel is then left behind

// Returns at most a time in a hundred years, because the clock's range ends.
Clock::time_point after(Seconds wait) {
    const Seconds longest = std::chrono::days(36500);
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(wait, longest));
}

struct Limits {
    std::optional<Seconds> timeout;
    Seconds grace{1};
};

struct Rank {
    Process process;
    LineReader readers[2];
    bool exited = false, finished = false;
    bool told_to_end = false;          // by hocket-run, not by a signal that it passed on
    siginfo_t how{};                   // valid once exited
    Clock::time_point output_until{};  // once exited: until when its descendants may still write

    int exit_code() const { return how.si_code == CLD_EXITED ? how.si_status : 128 + how.si_status; }
    bool writes() const { return process.output[0] >= 0 || process.output[1] >= 0; }
    bool ended_by_us() const {
        return told_to_end && how.si_code != CLD_EXITED &&
               (how.si_status == SIGTERM || how.si_status == SIGKILL);
    }
    std::string ending() const {
        if (ended_by_us()) return "ended by hocket-run";
        if (how.si_code == CLD_EXITED) return fmt::format("exited with code {}", how.si_status);
        return fmt::format("killed by signal {} ({})", how.si_status, strsignal(how.si_status));
    }
};

class Job {
  public:
    // recordings: null if no report is requested.
    Job(const JobSpec& spec, const Limits& limits, RecordingFolder* recordings)
        : spec_(spec), limits_(limits), recordings_(recordings) {}
    int run();
    std::vector<int> process_groups() const;

  private:
    // The stages of ending a job; when a stage's deadline passes, the next stage begins.
    enum class Stage { running, grace, reporting, terminating, killed };

    void start();
    void poll_once();
    int poll_timeout_ms() const;
    void look_at_stdout();
    void take_signals();
    void read_output(Rank& rank, int stream);
    void read_rest(Rank& rank, int stream);
    void reap();
    void finish(std::size_t index);
    void note_failures(std::vector<std::size_t> exited);
    void find_cause(const std::vector<record::Recording>& recordings);
    void check_deadlines();
    void enter(Stage stage);
    void signal_all(int signal);
    void ask_for_recordings();
    std::vector<record::Recording> read_recordings() const;
    void look_at_recordings();
    void report(const std::vector<record::Recording>& recordings);
    bool finished() const;
    void say(const std::string& text) { console_.line(2, -1, "hocket-run: " + text); }
    void summarise();

    const JobSpec& spec_;
    const Limits limits_;
    Console console_;
    std::optional<Guard> guard_;
    std::vector<Rank> ranks_;
    int signals_ = -1;
    Stage stage_ = Stage::running;
    Clock::time_point stage_end_ = Clock::time_point::max();
    std::optional<int> result_;  // the exit code of the first failure
    std::optional<std::size_t> first_failed_;
    Clock::time_point cause_until_{};  // until then a killed rank may replace the first failure
    int interrupts_ = 0;
    RecordingFolder* const recordings_;
    Clock::time_point next_look_{};
    Clock::time_point answers_until_ = Clock::time_point::max();  // until then a report waits for the ranks
    bool is_stdout_lost_ = false;
};

bool is_ignored(int signal) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    return now.sa_handler == SIG_IGN;
}

void Job::start() {
    sigset_t set;
    sigemptyset(&set);
    // Signals that this process was started to ignore, as nohup and shells' background jobs are, stay
    // ignored.
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        if (!is_ignored(number)) sigaddset(&set, number);
    signal(SIGCHLD, SIG_DFL);  // a process that ignores it cannot wait for children
    sigaddset(&set, SIGCHLD);
    if (recordings_) sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signal(SIGPIPE, SIG_IGN);
    guard_.emplace();
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    for (int rank = 0; rank < spec_.ranks; ++rank) {
        ranks_.push_back({start_rank(spec_, rank), {{console_, rank, 1}, {console_, rank, 2}}});
        guard_->watch(ranks_.back().process.pid);
        for (int fd : ranks_.back().process.output)
            if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    close(spec_.listen_fd);  // only rank 0 keeps it: when rank 0 dies, connections are refused
    if (limits_.timeout) stage_end_ = after(*limits_.timeout);
}

int Job::run() {
    try {
        start();
    } catch (const std::runtime_error& error) {
        tools::say("hocket-run: {}", error.what());
        signal_all(SIGKILL);
        return 127;
    }
    while (!finished()) poll_once();
    stage_end_ = Clock::time_point::max();
    if (recordings_ && first_failed_) {
        const auto recordings = read_recordings();
        find_cause(recordings);
        report(recordings);
    }
    summarise();
    // Waits for a stalled reader until it goes away or a second signal comes.
    while ((console_.pending(1) || console_.pending(2)) && interrupts_ < 2) poll_once();
    return result_.value_or(0);
}

void Job::poll_once() {
    std::vector<pollfd> fds{{signals_, POLLIN, 0}};
    std::vector<std::pair<Rank*, int>> sources;
    for (int stream : {1, 2}) fds.push_back({console_.pending(stream) ? stream : -1, POLLOUT, 0});
    if (!console_.full())
        for (Rank& rank : ranks_)
            for (int stream : {0, 1})
                if (rank.process.output[stream] >= 0) {
                    fds.push_back({rank.process.output[stream], POLLIN, 0});
                    sources.emplace_back(&rank, stream);
                }
    poll(fds.data(), fds.size(), poll_timeout_ms());
    take_signals();
    for (int stream : {1, 2})
        if (fds[stream].revents != 0) console_.write_some(stream);
    look_at_stdout();
    for (std::size_t i = 0; i < sources.size(); ++i)
        if (fds[3 + i].revents != 0) read_output(*sources[i].first, sources[i].second);
    reap();
    look_at_recordings();
    check_deadlines();
}

int Job::poll_timeout_ms() const {
    Clock::time_point next = stage_end_;
    if (answers_until_ != Clock::time_point::max()) next = std::min(next, next_look_);
    for (const Rank& rank : ranks_)
        if (rank.exited && !rank.finished) next = std::min(next, rank.output_until);
    if (next == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000));
}

// If a job's output goes nowhere, the job runs in vain. Losing stderr is different: it is not the job's
// output.
void Job::look_at_stdout() {
    if (is_stdout_lost_ || console_.stdout_error() == 0) return;
    is_stdout_lost_ = true;
    say(fmt::format("the output cannot be written (stdout): {}; ending the job",
                    strerror(console_.stdout_error())));
    if (!result_) result_ = output_exit_code;
    if (stage_ < Stage::terminating && !finished()) enter(Stage::terminating);
}

void Job::take_signals() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof info) == sizeof info) {
        const int signal = static_cast<int>(info.ssi_signo);
        if (signal == SIGCHLD) continue;
        if (signal == SIGUSR1) {
            ask_for_recordings();
            continue;
        }
        signal_all(signal);
        if (++interrupts_ == 1) continue;
        say(fmt::format("second signal ({}): killing all ranks", strsignal(signal)));
        if (!result_) result_ = 128 + signal;
        if (stage_ < Stage::killed) enter(Stage::killed);
    }
}

void Job::read_output(Rank& rank, int stream) {
    char bytes[16384];
    int& fd = rank.process.output[stream];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0) return rank.readers[stream].add({bytes, static_cast<std::size_t>(got)});
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    rank.readers[stream].finish();
    close(fd);
    fd = -1;
}

// Reads what a rank that has ended has left in its pipe, also if the reader of hocket-run's output is slow. A
// process that has left the rank's group may go on writing: no more than the largest pipe holds is read.
void Job::read_rest(Rank& rank, int stream) {
    constexpr std::size_t largest_pipe = 1 << 20;
    char bytes[16384];
    const int fd = rank.process.output[stream];
    for (std::size_t all = 0; fd >= 0 && all < largest_pipe;) {
        const ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        rank.readers[stream].add({bytes, static_cast<std::size_t>(got)});
        all += static_cast<std::size_t>(got);
    }
}

void Job::reap() {
    std::vector<std::size_t> exited;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
        Rank& rank = ranks_[i];
        if (!rank.exited) {
            // The rank is not yet reaped: as long as it is a zombie, no other process group can get its
            // number.
            siginfo_t how{};
            if (waitid(P_PID, rank.process.pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0)
                continue;
            rank.exited = true;
            rank.how = how;
            rank.output_until = after(limits_.grace);
            exited.push_back(i);
        }
        if (!rank.finished && (!rank.writes() || Clock::now() >= rank.output_until)) finish(i);
    }
    note_failures(exited);
}

void Job::finish(std::size_t index) {
    Rank& rank = ranks_[index];
    rank.finished = true;
    kill(-rank.process.pid, SIGKILL);  // kill the processes that it left behind
    guard_->forget(rank.process.pid);
    waitpid(rank.process.pid, nullptr, 0);
    for (int stream : {0, 1}) {
        read_rest(rank, stream);
        rank.readers[stream].finish();
        if (rank.process.output[stream] >= 0) close(std::exchange(rank.process.output[stream], -1));
    }
}

// A killed rank is more likely the cause than one that ended because a peer was gone. But the kernel takes
// longer to end it than the others take to notice. So for a moment a killed rank may still replace the first
// failure.
void Job::note_failures(std::vector<std::size_t> exited) {
    const auto killed = [&](std::size_t i) { return ranks_[i].how.si_code != CLD_EXITED; };
    std::stable_partition(exited.begin(), exited.end(), killed);
    for (std::size_t i : exited) {
        if (ranks_[i].exit_code() == 0 || ranks_[i].ended_by_us()) continue;
        if (first_failed_) {
            const bool is_cause = killed(i) && !killed(*first_failed_) && Clock::now() < cause_until_;
            if (!is_cause || stage_ != Stage::grace || interrupts_ > 0) continue;
            result_ = ranks_[i].exit_code();
        } else {
            cause_until_ = Clock::now() + std::chrono::milliseconds(300);
            if (!result_) result_ = ranks_[i].exit_code();
        }
        first_failed_ = i;
        // Ask now, before hanging ranks are ended.
        if (stage_ == Stage::running && recordings_) recordings_->ask();
        if (stage_ == Stage::running) enter(Stage::grace);
    }
}

// A rank's connections close before its process has ended, so a rank that ends because it lost another one
// may be seen to end first. The recordings say which rank was lost: the first failure is that rank's.
void Job::find_cause(const std::vector<record::Recording>& recordings) {
    if (result_ != ranks_[*first_failed_].exit_code()) return;  // the result has another reason
    const std::map<int, int> lost_by_rank = losses(recordings);
    const auto found = lost_by_rank.find(static_cast<int>(*first_failed_));
    if (found == lost_by_rank.end() || lost_by_rank.contains(found->second)) return;
    const auto lost = static_cast<std::size_t>(found->second);
    if (lost >= ranks_.size() || !ranks_[lost].exited || ranks_[lost].ended_by_us()) return;
    if (ranks_[lost].exit_code() == 0) return;
    first_failed_ = lost;
    result_ = ranks_[lost].exit_code();
}

void Job::check_deadlines() {
    if (Clock::now() < stage_end_) return;
    switch (stage_) {
        case Stage::running:
            say(fmt::format("timeout: the job has not ended within {} s; ending it",
                            limits_.timeout->count()));
            result_ = timeout_exit_code;
            return enter(recordings_ ? Stage::reporting : Stage::terminating);
        case Stage::grace:
        case Stage::reporting:
            return enter(Stage::terminating);
        case Stage::terminating:
            return enter(Stage::killed);
        case Stage::killed:
            say("some ranks cannot be killed and are left behind (stuck in the kernel?)");
            for (Rank& rank : ranks_) rank.finished = true;
            stage_end_ = Clock::time_point::max();
    }
}

void Job::enter(Stage stage) {
    stage_ = stage;
    if (stage == Stage::grace) stage_end_ = after(limits_.grace);
    if (stage == Stage::reporting) {
        ask_for_recordings();
        stage_end_ = Clock::time_point::max();
    }
    if (stage == Stage::terminating || stage == Stage::killed)
        for (Rank& rank : ranks_) rank.told_to_end |= !rank.exited;
    if (stage == Stage::terminating) {
        signal_all(SIGTERM);
        stage_end_ = after(kill_wait);
    }
    if (stage == Stage::killed) {
        signal_all(SIGKILL);
        stage_end_ = after(give_up_wait);
    }
}

void Job::signal_all(int signal) {
    for (const Rank& rank : ranks_)
        if (!rank.finished) kill(-rank.process.pid, signal);
}

void Job::ask_for_recordings() {
    recordings_->ask();
    answers_until_ = after(answer_wait);
    next_look_ = after(look_for_answers);
}

std::vector<int> Job::process_groups() const {
    std::vector<int> groups;
    for (const Rank& rank : ranks_) groups.push_back(rank.process.pid);
    return groups;
}

std::vector<record::Recording> Job::read_recordings() const {
    return recordings_->read(process_groups());
}

// Shows the requested report once all ranks have answered or will not.
void Job::look_at_recordings() {
    const bool is_due = Clock::now() >= next_look_ || finished();
    if (answers_until_ == Clock::time_point::max() || !is_due) return;
    next_look_ = after(look_for_answers);
    const auto recordings = read_recordings();
    if (Clock::now() < answers_until_ && !finished() && !recordings_->is_answered(recordings)) return;
    answers_until_ = Clock::time_point::max();
    report(recordings);
    if (stage_ == Stage::reporting) enter(Stage::terminating);
}

void Job::report(const std::vector<record::Recording>& recordings) {
    const auto ending_of = [this](int rank) {
        const auto index = static_cast<std::size_t>(rank);
        return index < ranks_.size() && ranks_[index].exited ? ranks_[index].ending() : "";
    };
    say("report of what the ranks were doing:");
    std::istringstream lines(report_text(recordings, ending_of));
    for (std::string line; std::getline(lines, line);) say(line);
    if (recordings_->is_kept()) say("the recordings are in " + recordings_->path());
}

bool Job::finished() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.finished; });
}

// Reports how each rank ended, unless all ended well; ranks with the same ending share a line.
void Job::summarise() {
    std::map<std::string, std::vector<int>> others;  // how they ended -> which ranks
    bool any_ended_by_us = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
        if (i != first_failed_ && ranks_[i].exited) others[ranks_[i].ending()].push_back(static_cast<int>(i));
        any_ended_by_us |= ranks_[i].ended_by_us();
    }
    if (first_failed_)
        say(fmt::format("rank {} {}", *first_failed_, ranks_[*first_failed_].ending()));
    else if (!any_ended_by_us)
        return;
    for (const auto& [ending, who] : others)
        say(fmt::format("{} {} {}", first_failed_ ? "then rank" : "rank", fmt::join(dsl::runs_of(who), " "),
                        ending));
}

void say_lines(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) say("hocket-run: {}", line);
}

// process_groups: as in join_traces. Throws std::runtime_error.
void save_trace(const std::string& folder, const std::string& file, const std::vector<int>* process_groups) {
    const JoinedTrace joined = join_traces(folder, file, process_groups);
    say_lines(joined.remarks);
    if (joined.unreadable > 0)
        say("hocket-run: {} line{} of the trace cannot be read, and {} missing: did a rank end while it "
            "wrote?",
            joined.unreadable, joined.unreadable == 1 ? "" : "s", joined.unreadable == 1 ? "is" : "are");
    say("hocket-run: the trace is in {} ({} slices of {} rank{}); open it in https://ui.perfetto.dev", file,
        joined.slices, joined.ranks, joined.ranks == 1 ? "" : "s");
}

// Prints the report of a job that another launcher has started.
int print_report(const std::string& folder) {
    std::string remarks;
    const auto recordings = read_recordings(folder, remarks);
    say_lines(remarks);
    if (recordings.empty()) {
        say("hocket-run: there are no recordings in {}; the ranks need HOCKET_FLIGHT_RECORDER={}", folder,
            folder);
        return 1;
    }
    fmt::print("{}", report_text(recordings, [](int) { return ""; }));
    return 0;
}

int main_of(int argc, char** argv) {
    CLI::App app{"Starts N ranks of PROGRAM on this host. Options after PROGRAM are the program's own.",
                 "hocket-run"};
    JobSpec job;
    Limits limits;
    std::string report_of, trace, trace_of;
    double timeout = 0, grace = 1;
    bool no_prefix = false, prefix_always = false, has_report = false;
    auto* ranks = app.add_option("-n,--ranks", job.ranks, "number of ranks")->check(CLI::Range(1, 4096));
    app.add_option("--timeout", timeout, "end the job after this many seconds, with exit code 124")
        ->check(CLI::PositiveNumber);
    app.add_option("--grace", grace, "seconds that the others get to end by themselves when one rank fails")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    auto* tag = app.add_flag("--tag-output", prefix_always,
                             "put [rank] before each line (default, but for one rank)");
    app.add_flag("--no-prefix", no_prefix, "pass the ranks' output through as it is")->excludes(tag);
    app.add_flag(
        "--report", has_report,
        "when the job fails, or its timeout passes, or on SIGUSR1: say which rank waits for which, and "
        "where");
    app.add_option("--report-of", report_of,
                   "start nothing; print the report of the recordings in this folder, of ranks on any hosts");
    auto* trace_file = app.add_option("--trace", trace,
                                      "write what each rank did when, by source line, to this file, for "
                                      "https://ui.perfetto.dev");
    app.add_option(
           "--trace-of", trace_of,
           "start nothing; put the traces of this folder together, of ranks on any hosts (HOCKET_TRACE), "
           "in the file of --trace")
        ->needs(trace_file);
    tools::add_version(app, "hocket-run");
    app.prefix_command();
    app.footer(
        "Usage: hocket-run -n N [OPTIONS] PROGRAM [ARGS...]\n"
        "Exit code: the first failing rank's (128 + signal if it was killed), 124 after a timeout, 125 if\n"
        "the output cannot be written, else 0.\n"
        "The ranks get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and\n"
        "HOCKET_SECRET; rank 0 gets a listening socket in HOCKET_LISTEN_FD.\n"
        "Rank 0 also gets hocket-run's standard input, unless that is a terminal; for the others it is "
        "empty.");
    try {
        if (argc > 1 && std::string_view(argv[1]) == "-np")
            throw CLI::ValidationError("-np", "the number of ranks is given by -n: hocket-run -n 4 PROGRAM");
        app.parse(argc, argv);
        if (!report_of.empty()) return print_report(report_of);
        if (!trace_of.empty()) return save_trace(trace_of, trace, nullptr), 0;
        if (ranks->empty()) throw CLI::RequiredError("--ranks");
        job.command = app.remaining();
        if (!job.command.empty() && job.command[0] == "--")
            job.command.erase(job.command.begin());
        else if (!job.command.empty() && job.command[0][0] == '-')
            throw CLI::ExtrasError({job.command[0]});
        if (job.command.empty()) throw CLI::RequiredError("PROGRAM");
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (timeout > 0) limits.timeout = Seconds(timeout);
    limits.grace = Seconds(grace);
    job.captured = !no_prefix && (job.ranks > 1 || prefix_always);
    job.terminal = job.captured && isatty(STDOUT_FILENO);
    const char* secret = std::getenv("HOCKET_SECRET");
    job.secret = secret != nullptr && *secret != '\0' ? secret : random_secret();
    listen_on_loopback(job);
    std::optional<RecordingFolder> recordings;
    if (has_report) job.recordings = recordings.emplace().path();
    std::optional<JobFolder> traces;
    if (!trace.empty()) {
        check_trace_file(trace);
        job.traces = traces.emplace("HOCKET_TRACE", "traces").path();
    }
    Job running(job, limits, recordings ? &*recordings : nullptr);
    const int result = running.run();
    if (!traces) return result;
    try {
        const std::vector<int> groups = running.process_groups();
        save_trace(traces->path(), trace, &groups);
    } catch (const std::runtime_error& error) {
        traces->keep();
        say("hocket-run: {}; the files that the ranks wrote are in {}", error.what(), traces->path());
        return result == 0 ? output_exit_code : result;
    }
    return result;
}

}  // namespace
}  // namespace hocket::tools

int main(int argc, char** argv) {
    return hocket::tools::run_tool("hocket-run", [&] { return hocket::tools::main_of(argc, argv); });
}
