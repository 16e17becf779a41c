#include "runtime/record/trace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "runtime/log.hpp"

namespace hocket::record {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_kept_bytes = 1 << 18;
constexpr Moment kept_for = 1'000'000'000;
// A trace of a whole training fills a disk, and Perfetto cannot show it.
constexpr std::uint64_t most_bytes = 256 << 20;
// Rows of one process: those of its first communicator, then those of the second.
constexpr int rows_of_a_communicator = 1000;

// Processes with the same text read the same clock.
std::string clock_name() {
    std::string boot = "unknown boot " + std::to_string(getpid());
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    std::error_code none;
    return boot + " " + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
}

// Microseconds, exact to the nanosecond, as a JSON number.
std::string us(Moment ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string quoted(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[noreturn]] void cannot_write(const std::string& path) {
    throw Error(Status::io, fmt::format("the trace {} cannot be written: {}; HOCKET_TRACE must name a folder "
                                        "that all ranks may write to",
                                        path, std::strerror(errno)));
}

}  // namespace

TraceFile::TraceFile(const std::string& folder, const Origin& origin) : process_(origin.job_rank()) {
    static std::atomic<int> made{0};
    const int number = made++;
    std::error_code refused;
    std::filesystem::create_directories(folder, refused);
    path_ = fmt::format("{}/rank-{}.pid-{}.{}.trace.json", folder, process_, origin.pid, number);
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) cannot_write(path_);
    first_row_ = number * rows_of_a_communicator;
    lines_ = "[\n";
    const auto tell = [this](const char* name, const Json& facts) {
        add_line(
            Json{{"name", name}, {"ph", "M"}, {"pid", process_}, {"tid", first_row_}, {"args", facts}}.dump(
                -1, ' ', false, Json::error_handler_t::replace),
            0);
    };
    tell(trace_origin_event, {{"communicator", origin.communicator},
                              {"rank", origin.rank},
                              {"job_ranks", origin.job_ranks},
                              {"topology", origin.topology},
                              {"provider", origin.provider},
                              {"host", origin.host},
                              {"process", origin.pid},
                              {"clock", clock_name()}});
    tell("process_name", {{"name", fmt::format("rank {} ({})", process_, origin.host)}});
    tell("process_sort_index", {{"sort_index", process_}});
    flush();
}

TraceFile::~TraceFile() {
    flush();
    if (!is_over_) {
        lines_ = "{}]\n";
        flush();
    }
    close(fd_);
}

void TraceFile::name_row(int row, const std::string& name) {
    const int tid = first_row_ + row;
    add_line(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{0},"tid":{1},"args":{{"name":{2}}}}},
{{"name":"thread_sort_index","ph":"M","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
                         process_, tid, quoted(name)),
             0);
}

void TraceFile::add(const Slice& slice) {
    std::string facts;
    const auto add_fact = [&](const char* name, const std::string& json) {
        facts += fmt::format("{}\"{}\":{}", facts.empty() ? "" : ",", name, json);
    };
    for (const auto& [name, number] : slice.numbers) add_fact(name, std::to_string(number));
    for (const auto& [name, text] : slice.texts) add_fact(name, quoted(text));
    add_line(
        fmt::format(R"({{"name":{},"cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"args":{{{}}}}})",
                    quoted(slice.name), slice.category, us(slice.began), us(slice.ended - slice.began),
                    process_, first_row_ + slice.row, facts),
        slice.ended);
}

void TraceFile::add_line(const std::string& json, Moment at) {
    if (is_over_) return;
    lines_ += json + ",\n";
    if (lines_.size() >= most_kept_bytes || at - written_at_ >= kept_for) {
        flush();
        written_at_ = at;
    }
}

void TraceFile::flush() noexcept {
    std::size_t done = 0;
    while (done < lines_.size() && !is_over_) {
        const ssize_t wrote = write(fd_, lines_.data() + done, lines_.size() - done);
        if (wrote < 0 && errno == EINTR) continue;
        is_over_ = wrote <= 0;
        if (is_over_)
            log_line("hocket: warning: the trace {} ends: it cannot be written: {}", path_,
                     std::strerror(errno));
        else
            done += static_cast<std::size_t>(wrote);
    }
    written_ += done;
    lines_.clear();
    if (written_ < most_bytes || is_over_) return;
    is_over_ = true;
    log_line("hocket: warning: the trace {} ends: it has {} MiB, which is the most", path_, most_bytes >> 20);
}

}  // namespace hocket::record
