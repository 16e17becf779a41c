// A rank's part of a trace: what it did when, as lines of JSON in Google's trace event format, which Perfetto
// (ui.perfetto.dev) reads. hocket-run puts the files of all ranks together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/record/flight.hpp"
#include "runtime/record/recording.hpp"

namespace hocket::record {

// The event with which a file begins: its arguments say whose it is.
inline constexpr const char* trace_origin_event = "hocket trace";

// Something that took time. Slices of one row contain each other, or do not overlap.
struct Slice {
    int row = 0;  // of the communicator, from 0
    std::string name, category;
    Moment began = 0, ended = 0;
    std::vector<std::pair<const char*, std::string>> texts;     // further facts, by name
    std::vector<std::pair<const char*, std::int64_t>> numbers;  // likewise
};

// Lines are kept for up to a second before they are written. Not thread-safe.
class TraceFile {
  public:
    // Makes the folder if there is none. Throws hocket::Error(io).
    TraceFile(const std::string& folder, const Origin& origin);
    ~TraceFile();
    TraceFile(const TraceFile&) = delete;

    // A row has this name, which is shown beside it.
    void name_row(int row, const std::string& name);

    void add(const Slice& slice);

    // What was added lies in the file. If it cannot be written, the trace ends, and a warning says why.
    void flush() noexcept;

  private:
    void add_line(const std::string& json, Moment at);

    std::string path_, lines_;
    int fd_ = -1;
    int process_ = 0, first_row_ = 0;  // as the format numbers them
    std::uint64_t written_ = 0;
    Moment written_at_ = 0;
    bool is_over_ = false;
};

}  // namespace hocket::record
