// A rank's part of a trace: its actions over time, as lines of JSON in Google's trace event format, which
// Perfetto (ui.perfetto.dev) reads. hocket-run merges the files of all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/record/flight.hpp"
#include "runtime/engine/record/recording.hpp"

namespace hocket::record {

// The event with which a file begins: its arguments identify the rank.
inline constexpr const char* trace_origin_event = "hocket trace";

// Additional facts of a slice, by name.
struct Facts {
    std::vector<std::pair<const char*, std::int64_t>> numbers = {};
    std::vector<std::pair<const char*, std::string>> texts = {};
};

// Slices of one row are nested or do not overlap. Rows are the communicator's, from 0 to most_rows - 1. Lines
// are kept for up to a second before they are written. Not thread-safe. May throw std::bad_alloc.
class TraceFile {
  public:
    static constexpr int most_rows = 1000;

    // Creates the folder if it does not exist. Throws hocket::Error(io).
    TraceFile(const std::string& folder, const Origin& origin);
    ~TraceFile();
    TraceFile(const TraceFile&) = delete;

    // Sets the name that is shown beside a row.
    void name_row(int row, const std::string& name);

    // Begins a slice, which ends with the matching end() of its row. An operation that never ends, as on a
    // rank that is killed, is therefore in the trace, too.
    void begin(int row, Moment at, const std::string& name, const char* category, const Facts& facts);
    void end(int row, Moment at, const Facts& facts);
    // Adds a complete slice.
    void add(int row, Moment began, Moment ended, const std::string& name, const char* category,
             const Facts& facts);

    // Call now and then: writes the lines that have been kept for long enough.
    void look(Moment now) noexcept;
    // Writes all lines. If the file cannot be written, the trace ends, and a warning says why.
    void flush() noexcept;

  private:
    void add_line(const std::string& json, Moment at);
    std::string place_of(int row) const;

    std::string path_, lines_;
    int fd_ = -1;
    int process_ = 0, first_row_ = 0;  // in the format's numbering
    std::uint64_t written_ = 0;
    Moment written_at_ = 0;
    bool is_over_ = false;
};

}  // namespace hocket::record
