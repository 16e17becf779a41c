// Answers other ranks' questions about this rank's operations on a thread of its own, because the thread that
// receives a question must not wait for the gate.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/engine/progress/endings.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"

namespace hocket::engine {

class Answers {
  public:
    // Returns what is known of the operation with this number, or of the latest one if that was not started
    // here; nullopt if nothing is known. May throw.
    using Find = std::function<std::optional<transport::Account>(std::uint64_t number)>;

    // Begins to receive questions; the thread starts with the first of them.
    Answers(transport::Bootstrap& bootstrap, Find find);
    ~Answers() { finish(); }
    Answers(const Answers&) = delete;

    // Stops receiving questions. Returns after all questions received so far are answered.
    void finish();

    // Answers the open questions on the calling thread, which holds what the answering thread would need to
    // find anything.
    void answer_here(const Find& find) noexcept;

  private:
    void hear(std::uint64_t number) noexcept;
    void answer() noexcept;
    void tell(const Find& find, std::uint64_t number) noexcept;

    transport::Bootstrap& bootstrap_;
    const Find find_;
    struct Question {
        std::uint64_t number;
        bool was_answered_here = false;  // since the last question
    };

    std::mutex mutex_;                // guards questions_
    std::deque<Question> questions_;  // the first is being answered
    Caller caller_;
};

}  // namespace hocket::engine
