// Decides when a server's checkpoints are written, and what they contain.
//
// There are two kinds. server-0.checkpoint holds the state at some moment: when the job began, when a worker
// asked for it or left, or when the server was stopped. Its chunks may have different clocks, and workers
// that continue push what is missing. server-0.round-40.checkpoint holds whole rounds, those below 40, as do
// the other servers' checkpoints with this round in the name (Root::cut_every). A job whose workers have all
// died goes back to these. A server restores the latest checkpoint of all, and keeps as many of whole rounds
// as one server can be behind another.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/memory.hpp"
#include "runtime/params/protocol/root.hpp"
#include "runtime/params/service/calculator.hpp"
#include "runtime/transport/net/mailbox.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

// Identifies a shard and its job.
struct ShardName {
    Job job;
    std::uint32_t index = 0, servers = 1;  // servers: how many have chunks
    std::uint32_t all_servers = 1;         // how many the first server was started for
    std::string run;                       // identifies the run of the job (Front::Beginning)
    std::uint64_t every = 1;               // rounds between two checkpoints, whose updates workers must keep
};

// The contents of a checkpoint. The incarnation is that of the restored server, and is written to the file,
// too.
struct RestoredShard {
    ShardName name;
    Snapshot snapshot;
};

struct CheckpointOptions {
    std::filesystem::path folder;  // empty: the server writes none
    std::uint64_t every = 10;      // in rounds; the first server's value applies to all servers
    bool restore = false;          // continues from the checkpoint in the folder
    // Required with `restore` if the folder has checkpoints of several servers.
    std::optional<std::uint32_t> index;
    std::optional<Clock> round;  // goes back to the checkpoint of all rounds below this
    // New workers continue even if the servers' checkpoints are of different rounds.
    bool accepts_torn = false;
};

// Throws Error(io) if checkpoints cannot be written to the folder. Removes what killed servers have left of
// checkpoints that they were writing. is_new: the job begins; then also throws
// Error(invalid_argument) if the folder has checkpoints, which the job would replace.
void require_folder(const std::filesystem::path& folder, bool is_new);

// With a round, later checkpoints are renamed to *.checkpoint.old, and no former member is expected back.
// Without it the latest checkpoint is taken. A damaged one that may be the latest is an error: an older one
// in its place would silently drop rounds. Throws Error(not_found | io | invalid_argument), and what
// make_calculator throws.
RestoredShard restore_shard(const CheckpointOptions& options, Memory& memory,
                            const MakeCalculator& make_calculator);

// Returns the whole rounds that have checkpoints in the folder, ascending; some may be missing if the folder
// cannot be read.
std::vector<Clock> whole_rounds_in(const std::filesystem::path& folder, std::uint32_t index);

// Used only on the service's thread. Files are written on a separate thread, one at a time.
class Checkpoints {
  public:
    // Called on the mailbox's thread when the snapshot is on the disk, or with the reason why it could not be
    // written.
    using Written = std::function<void(const Snapshot& snapshot, const std::string& error, bool is_whole)>;

    // clock: of the existing checkpoint; empty: there is none, and one is due.
    Checkpoints(std::filesystem::path folder, ShardName name, std::optional<Clock> clock,
                transport::Mailbox& mailbox, Written written);
    ~Checkpoints();  // waits for the one that is being written

    bool is_writing() const { return writer_.joinable(); }
    // Returns true if a checkpoint should be written now. Workers wait if none is written for long, so a
    // failed one is tried again after a second. is_wanted: one is due even if the last one is recent. Where
    // there are rounds, checkpoints of whole rounds are written regardless.
    bool is_due(Clock clock, bool is_wanted) const;
    // Begins to write. If another checkpoint is being written, this one follows it; of several snapshots
    // given meanwhile only the last is written. done: called like Written, with the reason if it could not be
    // written; may be empty.
    using Done = std::function<void(const std::string& error)>;
    void write(Snapshot snapshot, Done done = {});
    // The same for whole rounds, but each one is written, in order, so that the servers always have one in
    // common: one that failed is tried again with the next checkpoint. Workers proceed only a limited number
    // of rounds ahead of what is written.
    void write_whole(Snapshot cut);
    std::vector<Clock> whole_rounds() const { return whole_rounds_in(folder_, name_.index); }
    // Writes the last checkpoint; it is on the disk when this returns. Throws Error(io).
    void finish(const Snapshot& snapshot);

  private:
    struct Work;

    void begin();
    void ended(Work& work);
    void store(const Snapshot& snapshot) const;
    void store_whole(const Snapshot& cut) const;
    void write_file(const std::filesystem::path& file, const Snapshot& snapshot) const;

    const std::filesystem::path folder_, file_;
    const ShardName name_;
    std::optional<Clock> last_;
    std::optional<transport::Clock::time_point> try_again_;  // set if the last one failed
    transport::Mailbox& mailbox_;
    const Written written_;
    bool writes_moment_ = false;  // a checkpoint of a moment is being written
    std::optional<Snapshot> next_;
    std::deque<Snapshot> next_whole_;
    std::vector<Done> next_done_;
    std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
    std::thread writer_;
};

}  // namespace hocket::params
