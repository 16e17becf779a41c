// The messages that the processes of a parameter service exchange about one server's shard (docs/params.md).
//
// A shard is cut into chunks. Each chunk has a clock: the number of rounds of updates in its weights. Round c
// consists of the updates that all workers push at their own clock c. A round is applied to a chunk once,
// when the updates of all workers that take part in it have arrived; so weights of clock m hold all updates
// of the rounds below m, each once, and no others.
//
// Updates go up a tree of workers, whose root is the server, and are summed on the way. Weights come down
// when they are asked for. The server alone decides on the tree. Whenever a worker joins, leaves or stops
// answering, the server begins a new epoch: it announces a tree, and the clock of each chunk at that moment.
// All sums of older epochs become invalid everywhere, and each worker sends its own updates again, those of
// rounds that the announcement does not report as applied. So no process needs to know where a failure has
// caught a sum, and no update can count twice or get lost. Workers keep what they pushed until they hear that
// it is covered.
//
// A server can be replaced by one that continues from a snapshot, in a new incarnation. Workers keep what the
// snapshot lacks, and push it again. Only updates of departed workers can be lost this way. Therefore each
// announcement lists the workers that have left since the last snapshot, and the surviving workers report
// them to the new server. That server reports what is lost (Lost), expects none of the departed workers back,
// and refuses any that come back nevertheless: their updates might count twice.
//
// With unbounded staleness there are no rounds: the server applies each update when it arrives, and answers
// each want at once. Then the clock of a chunk is only the number of updates in it, an announcement has for
// each member its own rounds that are applied, and no worker sums: all workers are children of the server.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace hocket::params {

using Worker = std::uint32_t;  // its number; never reused within a job
using Clock = std::uint64_t;   // of a worker: how often it has called clock(); of a chunk: see above
using Chunk = std::uint32_t;

// How many rounds older than its own round a worker accepts weights. Empty: unbounded.
using Staleness = std::optional<Clock>;

// No worker reaches this clock, so sums of clocks do not overflow.
inline constexpr Clock most_clock = Clock{1} << 60;

// Returns the largest number of rounds whose updates a worker keeps, with a checkpoint each `every` rounds
// (0: no checkpoints): the rounds that it may be ahead, and two intervals, because the second checkpoint may
// still be on its way to the disk.
constexpr Clock most_kept(Clock staleness, Clock every) {
    return staleness + 2 + 2 * every;
}

inline constexpr Worker the_server = UINT32_MAX;  // used as the parent of a worker

// Elements of one chunk: weights, an update or a sum of updates. Opaque to the protocol, which only passes
// them on.
using Value = std::shared_ptr<const void>;

// Epochs of a server that has replaced another one order after all of that one's.
struct Epoch {
    std::uint32_t incarnation = 0;
    std::uint32_t number = 0;
    auto operator<=>(const Epoch&) const = default;
};

struct Member {
    Worker worker;
    Worker parent;  // a worker or the_server
    Clock first;    // the first round that it takes part in
    bool operator==(const Member&) const = default;
};

// A member of a server that the sender has replaced, which has not come back. Workers tell the next successor
// of it, if the sender is replaced before it knows whether the member comes back.
struct Expected {
    Worker worker;
    Clock first;  // the first round that it takes part in
    bool operator==(const Expected&) const = default;
};

// A worker that no longer takes part. Weights may have its updates of rounds from `first` to below `end`.
struct Departed {
    Worker worker;
    Clock first, end;
    bool operator==(const Departed&) const = default;
};

// A worker's knowledge of its server, for another one that may have replaced it.
struct Recollection {
    std::vector<Expected> members;  // as last announced to it, and those expected there
    std::vector<Departed> departed;
    Clock seen = 0;    // the highest clock of weights that it has received
    Clock pushed = 0;  // it has pushed nothing of this round or later ones
};

// Updates that were in weights, but are no longer. end: empty if it is not known how far they went.
struct Lost {
    Worker worker;
    Clock first;
    std::optional<Clock> end;
};

// From the server, to all members.
struct Announcement {
    Epoch epoch;
    std::vector<Member> members;  // ascending by worker
    std::vector<Clock> clocks;    // by chunk. Unbounded: the receiver's rounds below this are applied
    // Ascending by worker: those with updates that may be missing from every snapshot.
    std::vector<Departed> departed = {};
    std::vector<Expected> expected = {};  // ascending by worker
};

// To the parent: the sum of a round's updates, of the sender and of workers below it.
struct Sum {
    Epoch epoch;
    Chunk chunk;
    Clock clock;
    std::vector<Worker> workers;  // the workers whose updates it holds, ascending
    Value value;
};

// To the parent: requests weights of this clock or a later one, as soon as they exist.
struct Want {
    Epoch epoch;
    Chunk chunk;
    Clock clock;
};

// To a child that wants these weights.
struct Weights {
    Epoch epoch;
    Chunk chunk;
    Clock clock;
    Value value;
};

// To the server: the worker cannot reach its parent.
struct ParentLost {
    Epoch epoch;
};

// From the server: updates of rounds below this need not be kept.
struct Covered {
    Epoch epoch;
    Clock clock;
};

using Message = std::variant<Announcement, Sum, Want, Weights, ParentLost, Covered>;

// A message that a state machine sends. Messages from one process to another arrive in the order in which
// they were sent, or the connection ends; but a Want of a clock above 0 may overtake Sums, and a Sum may
// overtake those of other chunks.
struct Letter {
    Worker to;  // a worker or the_server
    Message message;
};

// Adds values in the given order: the result must not depend on when the parts arrived.
class Arithmetic {
  public:
    virtual Value sum(Chunk chunk, const std::vector<Value>& parts) = 0;
    // Returns the weights of the next clock. workers: the workers whose updates are in the parts, ascending.
    virtual Value updated(Chunk chunk, Clock clock, const Value& weights, const std::vector<Value>& parts,
                          const std::vector<Worker>& workers) = 0;

  protected:
    ~Arithmetic() = default;
};

}  // namespace hocket::params
