// Follows a communicator's operations for a trace (record/trace_file.hpp): each has a slice, and in it one
// for each step at which it was seen to stand, named by the step's source line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/messages/message_request.hpp"
#include "runtime/engine/run/execution.hpp"
#include "runtime/record/trace_file.hpp"

namespace hocket::engine {

// Not thread-safe: the communicator's gate serialises.
class Tracer {
  public:
    static record::Moment now() { return record::read_clock(CLOCK_MONOTONIC); }

    // Throws hocket::Error(io).
    Tracer(const std::string& folder, const record::Origin& origin)
        : file_(folder, origin), origin_(origin) {}

    // What is still in flight has its end here.
    ~Tracer() { end_all(Status::in_progress); }

    // began: a moment before the operation's first message.
    void begin(const Execution& execution, record::Moment began);
    // One that was over at once.
    void add_done(const record::Label& label, std::uint64_t number, std::uint64_t count,
                  record::Moment began);
    // To be called whenever something may have moved. Of a start that is cut into tiles, the oldest tile
    // tells.
    void look(std::span<Execution* const> in_flight);
    // A tile of it has ended.
    void end_tile(const Execution& execution);

    void begin(const MessageRequest& message);
    void end(const MessageRequest& message);

    // The communicator is broken, and nothing goes on.
    void end_all(Status status);

  private:
    struct Step {
        std::int64_t id;  // of the operation of the program, and the tile
        record::Moment began;
        record::Place place;
    };
    // An operation in flight. Each has a row, so that slices of a row do not overlap.
    struct Open {
        bool is_message = false;
        std::uint64_t number = 0;
        int row = 0;
        std::uint64_t tiles = 1;  // that have not ended
        std::optional<Step> step = std::nullopt;
        record::Slice slice = {};  // but for its end
    };
    int free_row(bool is_message);
    Open* find(bool is_message, std::uint64_t number);
    void end_step(Open& open, record::Moment at);
    void end(Open& open, Status status, record::Moment at);

    record::TraceFile file_;
    const record::Origin origin_;
    std::vector<Open> open_;
    int named_[2] = {0, 0};  // rows that have a name: of collectives, and of messages
};

}  // namespace hocket::engine
