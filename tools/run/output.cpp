#include "tools/run/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

namespace hocket::tools {
namespace {

constexpr std::string_view erase_line = "\r\x1b[K";
constexpr std::size_t longest_line = 1u << 20;  // longer lines are cut, so that memory stays bounded

std::string prefix_of(int rank, bool colour) {
    if (rank < 0) return "";
    if (!colour) return fmt::format("[{}] ", rank);
    constexpr int colours[] = {36, 33, 32, 35, 34, 31};
    return fmt::format("\x1b[{}m[{}]\x1b[0m ", colours[rank % std::size(colours)], rank);
}

// Returns what a terminal would show of a line with carriage returns in it.
std::string_view visible(std::string_view line) {
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    std::size_t start = line.rfind('\r');
    return start == line.npos ? line : line.substr(start + 1);
}

}  // namespace

Console::Console()
    : out_{STDOUT_FILENO, isatty(STDOUT_FILENO) == 1},
      err_{STDERR_FILENO, isatty(STDERR_FILENO) == 1},
      colour_(std::getenv("NO_COLOR") == nullptr) {}

// If both streams go to one terminal, two queues would corrupt the live line.
Console::Sink& Console::sink_of(int stream) {
    return stream == 1 || (out_.terminal && err_.terminal) ? out_ : err_;
}

void Console::append_line(Sink& sink, int rank, std::string_view text) {
    sink.queue += prefix_of(rank, sink.terminal && colour_);
    sink.queue += text;
}

void Console::line(int stream, int rank, std::string_view text) {
    Sink& sink = sink_of(stream);
    if (sink.error != 0) return;
    const bool covers_live = !live_text_.empty() && sink.terminal;
    if (covers_live) sink.queue += erase_line;
    append_line(sink, rank, text);
    sink.queue += '\n';
    if (!covers_live) return;
    if (rank == live_rank_ && stream == 1)
        live_text_.clear();
    else
        append_line(sink, live_rank_, live_text_);
}

void Console::live(int rank, std::string_view text) {
    if (text == live_text_ || out_.error != 0) return;
    live_rank_ = rank;
    live_text_ = text;
    out_.queue += erase_line;
    append_line(out_, rank, text);
}

void Console::write_some(int stream) {
    Sink& sink = stream == 1 ? out_ : err_;
    // A pipe that poll() calls writable takes PIPE_BUF bytes without blocking.
    ssize_t written = write(sink.fd, sink.queue.data(), std::min<std::size_t>(sink.queue.size(), PIPE_BUF));
    if (written > 0) sink.queue.erase(0, written);
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
        sink.error = errno;
        sink.queue.clear();
    }
}

void LineReader::add(std::string_view bytes) {
    while (!bytes.empty()) {
        std::size_t end = bytes.find('\n');
        partial_ += bytes.substr(0, end);
        if (end == bytes.npos) break;
        print(partial_);
        partial_.clear();
        bytes.remove_prefix(end + 1);
    }
    if (partial_.size() > longest_line) finish();
    const std::string_view shown = visible(partial_);
    if (shown.empty() || partial_.size() == shown.size()) return;  // no carriage return
    if (rank_ == 0 && stream_ == 1 && console_->stdout_is_terminal()) console_->live(rank_, shown);
    const bool complete = partial_.back() == '\r';
    partial_ = fmt::format("\r{}{}", shown, complete ? "\r" : "");  // earlier versions are dropped
}

void LineReader::finish() {
    if (!partial_.empty()) print(partial_);
    partial_.clear();
}

void LineReader::print(std::string_view line) {
    console_->line(stream_, rank_, visible(line));
}

}  // namespace hocket::tools
