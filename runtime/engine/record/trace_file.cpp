#include "runtime/engine/record/trace_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/base/log.hpp"

namespace hocket::record {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_kept_bytes = 1 << 18;
constexpr Moment kept_for = 1'000'000'000;
// A trace of a whole training fills a disk, and Perfetto cannot show it.
constexpr std::uint64_t most_bytes = 256 << 20;

// Processes with the same clock name read the same clock.
std::string clock_name() {
    std::string boot = "unknown boot " + std::to_string(getpid());
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    std::error_code none;
    return boot + " " + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
}

// Returns microseconds, exact to the nanosecond, as a JSON number.
std::string us(Moment ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string quoted(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_text(const Facts& facts) {
    std::string json;
    const auto add = [&](const char* name, const std::string& value) {
        json += fmt::format("{}\"{}\":{}", json.empty() ? "{" : ",", name, value);
    };
    for (const auto& [name, number] : facts.numbers) add(name, std::to_string(number));
    for (const auto& [name, text] : facts.texts) add(name, quoted(text));
    return json.empty() ? "{}" : json + "}";
}

[[noreturn]] void cannot_write_trace(const std::string& path, int error) {
    throw Error(Status::io, fmt::format("the trace {} cannot be written: {}; HOCKET_TRACE must name a folder "
                                        "that all ranks may write to",
                                        path, std::strerror(error)));
}

}  // namespace

TraceFile::TraceFile(const std::string& folder, const Origin& origin)
    : process_(origin.job_rank() + 1) {  // 0 is the kernel's idle process to Perfetto
    static std::atomic<int> made{0};
    const int number = made++;
    std::error_code refused;
    std::filesystem::create_directories(folder, refused);
    path_ = fmt::format("{}/rank-{}.pid-{}.{}.trace.json", folder, origin.job_rank(), origin.pid, number);
    fd_ = make_regular(path_, private_mode);
    if (fd_ < 0) cannot_write_trace(path_, -fd_);
    forks::close_in_children(fd_);
    // The rows of the process's first communicator come first, then those of the second.
    first_row_ = number * most_rows + 1;
    lines_ = "[\n";
    const auto tell = [this](const char* name, const Json& facts) {
        add_line(
            Json{{"name", name}, {"ph", "M"}, {"pid", process_}, {"tid", first_row_}, {"args", facts}}.dump(
                -1, ' ', false, Json::error_handler_t::replace),
            0);
    };
    tell(trace_origin_event, {{"communicator", origin.communicator},
                              {"rank", origin.rank},
                              {"job_rank", origin.job_rank()},
                              {"job_ranks", origin.job_ranks},
                              {"topology", origin.topology},
                              {"provider", origin.provider},
                              {"host", origin.host},
                              {"process", origin.pid},
                              {"process_group", origin.process_group},
                              {"clock", clock_name()}});
    tell("process_name", {{"name", fmt::format("rank {} ({})", origin.job_rank(), origin.host)}});
    tell("process_sort_index", {{"sort_index", origin.job_rank()}});
    flush();
}

TraceFile::~TraceFile() {
    flush();
    if (!is_over_) {
        lines_ = "{}]\n";
        flush();
    }
    forks::close(fd_);
}

void TraceFile::name_row(int row, const std::string& name) {
    const int tid = first_row_ + row;
    add_line(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{0},"tid":{1},"args":{{"name":{2}}}}},
{{"name":"thread_sort_index","ph":"M","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
                         process_, tid, quoted(name)),
             written_at_);
}

std::string TraceFile::place_of(int row) const {
    return fmt::format("\"pid\":{},\"tid\":{}", process_, first_row_ + row);
}

void TraceFile::begin(int row, Moment at, const std::string& name, const char* category, const Facts& facts) {
    add_line(fmt::format(R"({{"name":{},"cat":"{}","ph":"B","ts":{},{},"args":{}}})", quoted(name), category,
                         us(at), place_of(row), json_text(facts)),
             at);
}

void TraceFile::end(int row, Moment at, const Facts& facts) {
    add_line(fmt::format(R"({{"ph":"E","ts":{},{},"args":{}}})", us(at), place_of(row), json_text(facts)),
             at);
}

void TraceFile::add(int row, Moment began, Moment ended, const std::string& name, const char* category,
                    const Facts& facts) {
    add_line(fmt::format(R"({{"name":{},"cat":"{}","ph":"X","ts":{},"dur":{},{},"args":{}}})", quoted(name),
                         category, us(began), us(ended - began), place_of(row), json_text(facts)),
             ended);
}

void TraceFile::add_line(const std::string& json, Moment at) {
    if (is_over_) return;
    lines_ += json + ",\n";
    look(at);
}

void TraceFile::look(Moment now) noexcept {
    if (lines_.size() < most_kept_bytes && (lines_.empty() || now - written_at_ < kept_for)) return;
    flush();
    written_at_ = now;
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
