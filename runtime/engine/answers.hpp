// Answers what other ranks ask about this rank's operations, on a thread of its own: the thread that hears of
// a question must not wait for the gate.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/engine/endings.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"

namespace hocket::engine {

class Answers {
  public:
    // What is known of the operation of this number, or of the latest one if that was not started here; none
    // if nothing is known. May throw.
    using Find = std::function<std::optional<transport::Account>(std::uint64_t number)>;

    // Begins to hear questions; the thread begins with the first of them.
    Answers(transport::Bootstrap& bootstrap, Find find);
    ~Answers() { finish(); }
    Answers(const Answers&) = delete;

    // Hears no more questions. Returns after the answers to those that it has heard.
    void finish();

    // Answers what was asked and is not answered yet, for a thread that keeps the other one from finding
    // anything.
    void answer_here(const Find& find) noexcept;

  private:
    void hear(std::uint64_t number) noexcept;
    void answer() noexcept;
    void tell(const Find& find, std::uint64_t number) noexcept;

    transport::Bootstrap& bootstrap_;
    const Find find_;
    struct Question {
        std::uint64_t number;
        bool was_answered_here = false;  // since it was asked last
    };

    std::mutex mutex_;                // guards questions_
    std::deque<Question> questions_;  // the first is in work
    Caller caller_;
};

}  // namespace hocket::engine
