// Records a communicator's operations in a trace (record/trace_file.hpp): each has a slice, with an inner
// slice for each step at which it was seen, named by the step's source line.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/messages/message_request.hpp"
#include "runtime/engine/record/trace_file.hpp"
#include "runtime/engine/run/execution.hpp"

namespace hocket::engine {

// Not thread-safe: the communicator's gate serialises calls. An error in it ends the trace, and nothing else.
class Tracer {
  public:
    static record::Moment now() noexcept { return record::read_clock(CLOCK_MONOTONIC); }

    // Throws hocket::Error(io).
    Tracer(const std::string& folder, const record::Origin& origin)
        : file_(folder, origin), origin_(origin) {}

    // began: a time before the operation's first message.
    void begin(const Execution& execution, record::Moment began) noexcept;
    // Adds a collective that ended at once.
    void add_done(const record::Label& label, std::uint64_t number, std::uint64_t count,
                  record::Moment began) noexcept;
    // Call whenever something may have moved. For a start that is cut into tiles, the oldest tile counts.
    void look(std::span<Execution* const> in_flight) noexcept;
    // Notes that a tile of an operation has ended.
    void end_tile(const Execution& execution) noexcept;

    void begin(const MessageRequest& message) noexcept;
    void end(const MessageRequest& message) noexcept;

    // Ends all slices after the communicator has failed.
    void end_all(Status status) noexcept;

  private:
    // An operation in flight. Each has its own row, so that slices of a row do not overlap.
    struct Open {
        int row;
        std::uint64_t tiles;                              // tiles that have not ended
        std::optional<std::int64_t> step = std::nullopt;  // the current step
    };
    using Key = std::pair<bool, std::uint64_t>;  // true for a message; its number

    template <typename Call>
    void guarded(Call call) noexcept {
        if (is_over_) return;
        try {
            call();
        } catch (const std::exception& error) {
            end_because(error);
        }
    }
    void end_because(const std::exception& error) noexcept;
    // Returns nullopt if as many operations are in flight as there are rows; the operation is then left out.
    std::optional<int> take_row(bool is_message);
    void end_step(Open& open, record::Moment at);
    void end(std::map<Key, Open>::iterator open, Status status, record::Moment at);

    record::TraceFile file_;
    const record::Origin origin_;
    std::map<Key, Open> open_;
    std::vector<bool> taken_[2];  // rows: of collectives, and of messages
    bool is_over_ = false;
};

}  // namespace hocket::engine
