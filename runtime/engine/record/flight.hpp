// Records the last operations that a rank has started on a communicator. Notes are taken on the path of every
// small start: they allocate nothing, take no lock, and read a clock that costs a few nanoseconds.
#pragma once

#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/error.hpp"
#include "runtime/engine/record/label.hpp"

namespace hocket::record {

// Nanoseconds of CLOCK_MONOTONIC. The coarse clock advances by a few milliseconds at a time, which is exact
// enough to show how long an operation has waited.
using Moment = std::int64_t;

inline Moment read_clock(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<Moment>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}
inline Moment coarse_now() {
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

struct CollectiveNote {
    std::shared_ptr<const Label> label;  // null: an empty slot
    std::uint64_t number = 0;            // among all collectives of the communicator
    std::uint64_t count = 0;
    Moment started = 0, ended = 0;  // ended is 0 while it is in flight
    Status status = Status::in_progress;
};

struct MessageNote {
    std::uint64_t number = 0;  // among all messages of this rank, from 1; 0: an empty slot
    bool sends = false;
    int peer = 0, tag = 0;
    std::uint64_t bytes = 0;
    Moment started = 0, ended = 0;
    Status status = Status::in_progress;
};

// Not thread-safe: the communicator's gate serialises calls.
class Flight {
  public:
    static constexpr std::size_t kept = 256;  // of each kind of note

    static constexpr std::size_t checksums_kept = 4096;

    // number: that of the previous collective plus one. checksum: of all operations up to and including it.
    void begin(const std::shared_ptr<const Label>& label, std::uint64_t number, std::uint64_t count,
               std::uint32_t checksum) {
        note(label, number, count, checksum, Status::in_progress).ended = 0;
    }
    // Notes a collective that ended at once.
    void note_done(const std::shared_ptr<const Label>& label, std::uint64_t number, std::uint64_t count,
                   std::uint32_t checksum) {
        CollectiveNote& made = note(label, number, count, checksum, Status::success);
        made.ended = made.started;
    }
    // Several consecutive ends may share a time stamp.
    void end(std::uint64_t number, Status status, Moment at) {
        CollectiveNote& known = collectives_[number % kept];
        if (known.number == number) known.ended = at, known.status = status;
    }

    std::uint64_t begin_message(bool sends, int peer, int tag, std::uint64_t bytes) {
        MessageNote& made = messages_[++last_message_ % kept];
        made = {last_message_, sends, peer, tag, bytes, coarse_now(), 0, Status::in_progress};
        return last_message_;
    }
    void end_message(std::uint64_t number, Status status, Moment at) {
        MessageNote& known = messages_[number % kept];
        if (known.number == number) known.ended = at, known.status = status;
    }

    // Returns null if the collective is too old, or was never started.
    const CollectiveNote* find(std::uint64_t number) const {
        const CollectiveNote& known = collectives_[number % kept];
        return known.label && known.number == number ? &known : nullptr;
    }
    // Returns the first number whose checksum is known; the last is that of the latest start. started: the
    // number of collectives started so far.
    static std::uint64_t first_checksum(std::uint64_t started) {
        return started > checksums_kept ? started - checksums_kept : 0;
    }
    std::uint32_t checksum(std::uint64_t number) const { return checksums_[number % checksums_kept]; }

    // Return the notes in no particular order.
    const std::array<CollectiveNote, kept>& collectives() const { return collectives_; }
    const std::array<MessageNote, kept>& messages() const { return messages_; }

  private:
    CollectiveNote& note(const std::shared_ptr<const Label>& label, std::uint64_t number, std::uint64_t count,
                         std::uint32_t checksum, Status status) {
        checksums_[number % checksums_kept] = checksum;
        CollectiveNote& made = collectives_[number % kept];
        if (made.label != label) made.label = label;  // most starts use the same plan as before
        made.number = number;
        made.count = count;
        made.started = coarse_now();
        made.status = status;
        return made;
    }

    std::array<CollectiveNote, kept> collectives_;
    std::array<std::uint32_t, checksums_kept> checksums_{};
    std::array<MessageNote, kept> messages_;
    std::uint64_t last_message_ = 0;
};

}  // namespace hocket::record
