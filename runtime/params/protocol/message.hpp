// What the processes of a parameter service tell each other about one server's shard (docs/params.md).
//
// A shard is cut into chunks. Each chunk has a clock: how many rounds of updates are in its weights. Round c
// is the update that every worker pushes at its own clock c. A round is applied to a chunk once, when the
// updates of all workers that take part in it have come; so weights of clock m hold all updates of the rounds
// below m, each once, and no others.
//
// Updates go up a tree of workers, whose root is the server, and are summed on the way. Weights come down
// when they are asked for. The server alone decides on the tree. Whenever a worker comes, goes, or stops
// answering, it begins a new epoch: it announces a tree, and the clock of each chunk at that moment. All sums
// of older epochs are then worth nothing, anywhere, and each worker sends its own updates again, those of
// rounds that the announcement does not say to be applied. So nothing has to be known of where a failure has
// caught a sum, and none can count twice or get lost. Workers keep what they pushed until they hear that it
// is covered.
//
// A server can be replaced by one that goes on from a snapshot, in a new incarnation. Workers keep what the
// snapshot lacks, and push it again. Updates of workers that are gone can only be lost so: who has gone since
// the last snapshot is therefore part of each announcement, and survivors tell the new server. It names what
// is lost (Lost), expects none of them back, and turns away whoever comes back nevertheless: its updates
// might count twice.
//
// Where staleness is unbounded there are no rounds: the server applies each update when it comes, and answers
// each want at once. Then the clock of a chunk is only the number of updates in it, an announcement has for
// each member the rounds of its own that are applied, and nobody sums: all workers are below the server.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace hocket::params {

using Worker = std::uint32_t;  // its number; none is used twice in a job
using Clock = std::uint64_t;   // of a worker: how often it has called clock(). Of a chunk: see above
using Chunk = std::uint32_t;

// How many rounds older than its own a worker takes weights. Nothing: unbounded.
using Staleness = std::optional<Clock>;

// No worker gets there; so clocks can be added up.
inline constexpr Clock most_clock = Clock{1} << 60;

// How many rounds' updates a worker keeps at most, with so many rounds between two checkpoints (0: there are
// none): what it may be ahead, and two intervals, as the second checkpoint may be on its way to the disk.
constexpr Clock most_kept(Clock staleness, Clock every) {
    return staleness + 2 + 2 * every;
}

inline constexpr Worker the_server = UINT32_MAX;  // as the parent of a worker

// Elements of one chunk: weights, an update or a sum of updates. The protocol passes them on, and knows
// nothing of them.
using Value = std::shared_ptr<const void>;

// Epochs of a server that took another one's place come after all of that one's.
struct Epoch {
    std::uint32_t incarnation = 0;
    std::uint32_t number = 0;
    auto operator<=>(const Epoch&) const = default;
};

struct Member {
    Worker worker;
    Worker parent;  // or the_server
    Clock first;    // the first round that it takes part in
    bool operator==(const Member&) const = default;
};

// A worker that takes part no longer. Weights may have its updates of rounds from `first` to below `end`.
struct Departed {
    Worker worker;
    Clock first, end;
    bool operator==(const Departed&) const = default;
};

// Updates that were in weights, and are not any more. end: nothing: it is not known how far they went.
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
    // Ascending by worker: those whose updates no snapshot is known to have whole.
    std::vector<Departed> departed = {};
};

// To the parent: the updates of a round, of the sender and all that are below it.
struct Sum {
    Epoch epoch;
    Chunk chunk;
    Clock clock;
    std::vector<Worker> workers;  // whose updates it holds, ascending
    Value value;
};

// To the parent: asks for weights of this clock or a later one, when there are such.
struct Want {
    Epoch epoch;
    Chunk chunk;
    Clock clock;
};

// To a child that wants them.
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

// What a state machine has to say. Messages of one process to another arrive in the order in which they were
// sent, or the connection ends; but a Want of a clock above 0 may overtake Sums, and a Sum those of other
// chunks.
struct Letter {
    Worker to;  // or the_server
    Message message;
};

// Sums, in the order given: the result must not depend on when the parts came.
class Arithmetic {
  public:
    virtual Value sum(Chunk chunk, const std::vector<Value>& parts) = 0;
    // Weights of the next clock. workers: whose updates are in the parts, ascending.
    virtual Value updated(Chunk chunk, Clock clock, const Value& weights, const std::vector<Value>& parts,
                          const std::vector<Worker>& workers) = 0;

  protected:
    ~Arithmetic() = default;
};

}  // namespace hocket::params
