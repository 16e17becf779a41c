// Limits the time that planning may take. A schedule is a program, so only a clock tells how long laying it
// out and proving it takes.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace hocket::dsl {

// Not a DiagnosticError, because the schedule may be correct.
class DeadlineError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Told again and again that work with a deadline goes on, for people who wait for it.
class Watcher {
  public:
    virtual ~Watcher() = default;
    // doing: the current work, as Deadline::check has it. done, all: how much of it, in any unit; 0: unknown.
    virtual void look(std::string_view doing, std::uint64_t done, std::uint64_t all) = 0;

  private:
    friend class Deadline;
    std::uint64_t done_ = 0, all_ = 0;
};

class Deadline {
  public:
    using Clock = std::chrono::steady_clock;

    Deadline() = default;  // never
    // From now on. watcher: may be null; must outlive all copies.
    explicit Deadline(std::chrono::duration<double> limit, Watcher* watcher = nullptr)
        : limit_(limit),
          watcher_(watcher),
          end_(limit < std::chrono::hours(24 * 365)
                   ? Clock::now() + std::chrono::duration_cast<Clock::duration>(limit)
                   : Clock::time_point::max()) {}

    // Throws DeadlineError once the time is up. doing: the current work, for the message: "laying out ring".
    void check(std::string_view doing) const {
        if (watcher_) watcher_->look(doing, watcher_->done_, watcher_->all_);
        if (end_ != Clock::time_point::max() && Clock::now() > end_) expire(doing);
    }

    // How much of the current work is done, for the watcher. Both 0: nobody knows.
    void note(std::uint64_t done, std::uint64_t all) const {
        if (watcher_) watcher_->done_ = done, watcher_->all_ = all;
    }

  private:
    [[noreturn]] void expire(std::string_view doing) const {
        throw DeadlineError(fmt::format(
            "planning was not done within {:g} s, while {}\n"
            "  hint: give it more time, or choose a schedule that makes fewer steps (schedc explain "
            "shows them)",
            limit_.count(), doing));
    }

    std::chrono::duration<double> limit_{0};
    Watcher* watcher_ = nullptr;
    Clock::time_point end_ = Clock::time_point::max();
};

inline const Deadline no_deadline;

// Reads the clock only after a certain amount of work, so that it can be called in inner loops.
class DeadlineCounter {
  public:
    explicit DeadlineCounter(const Deadline& deadline) : deadline_(deadline) {}
    void check(std::string_view doing, std::size_t work = 1) {
        work_ += work;
        if (work_ < work_of_a_look) return;
        work_ = 0;
        deadline_.check(doing);
    }
    void note(std::uint64_t done, std::uint64_t all) const { deadline_.note(done, all); }

  private:
    static constexpr std::size_t work_of_a_look = 256;
    const Deadline& deadline_;
    std::size_t work_ = 0;
};

}  // namespace hocket::dsl
