// A server's checkpoints: when they are written, and what is in them.
//
// There are two kinds. server-0.checkpoint is of some moment: of the job's beginning, when a worker asked for
// it or left, when the server was stopped. Its chunks may have different clocks, and workers that go on push
// what is missing. server-0.round-40.checkpoint is of whole rounds, those below 40, as those of the other
// servers are that have this name (Root::cut_every): to these a job goes back whose workers have all died. A
// server goes on from the latest of all, and keeps as many of whole rounds as one server can be behind
// another.
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

// Which shard of which job it is.
struct ShardName {
    Job job;
    std::uint32_t index = 0, servers = 1;  // servers: that have chunks
    std::uint32_t all_servers = 1;         // that the first one was started for
    std::string run;                       // which one of the job (Front::Beginning)
    std::uint64_t every = 1;               // rounds between two checkpoints: workers keep so many
};

// What a checkpoint holds. Its incarnation is that of the server that goes on, in the file, too.
struct RestoredShard {
    ShardName name;
    Snapshot snapshot;
};

// Throws Error(io) if checkpoints cannot be written there. is_new: for a job that begins; then
// Error(invalid_argument), too, if there are checkpoints, which it would replace.
void require_folder(const std::filesystem::path& folder, bool is_new);

// index: needed where the folder has the checkpoints of several servers. round: goes back to that of these
// whole rounds, and gives what is later another name, *.checkpoint.old; nobody who took part is expected any
// more. Without it the latest is taken, and a damaged one that may be the latest is refused: an older one in
// its place would drop rounds in silence. Throws Error(not_found | io | invalid_argument), and what
// make_calculator throws.
RestoredShard restore_shard(const std::filesystem::path& folder, std::optional<std::uint32_t> index,
                            std::optional<Clock> round, Memory& memory,
                            const MakeCalculator& make_calculator);

// Ascending: of which whole rounds there are checkpoints in the folder.
std::vector<Clock> whole_rounds_in(const std::filesystem::path& folder, std::uint32_t index);

// Of the service's thread. Files are written on a thread of their own, one at a time.
class Checkpoints {
  public:
    // Called on the mailbox's thread when this is on the disk; or why it could not be written.
    using Written = std::function<void(const Snapshot& snapshot, const std::string& error)>;

    // clock: of the one that there is; nothing: there is none, and one is due.
    Checkpoints(std::filesystem::path folder, ShardName name, std::optional<Clock> clock,
                transport::Mailbox& mailbox, Written written);
    ~Checkpoints();  // waits for the one that is being written

    bool is_writing() const { return writer_.joinable(); }
    // Workers wait when none is written for long: what fails is tried again after a second.
    // is_wanted: also if that is not so long after the last one. Where there are rounds those of whole ones
    // come by themselves.
    bool is_due(Clock clock, bool is_wanted) const;
    // Begins to write. If one is being written, another one follows it, of the last snapshot that was given
    // meanwhile. done: called as Written is, with why it could not be written; may be empty.
    using Done = std::function<void(const std::string& error)>;
    void write(Snapshot snapshot, Done done = {});
    // The same, of whole rounds. Each is written, one after another: so those that the servers have have one
    // in common. Workers go no further than some rounds ahead of what is written.
    void write_whole(Snapshot cut);
    std::vector<Clock> whole_rounds() const { return whole_rounds_in(folder_, name_.index); }
    // The last one: is on the disk when this returns. Throws Error(io).
    void finish(const Snapshot& snapshot);

  private:
    void begin();
    void store(const Snapshot& snapshot) const;
    void store_whole(const Snapshot& cut) const;
    void write_file(const std::filesystem::path& file, const Snapshot& snapshot) const;

    const std::filesystem::path folder_, file_;
    const ShardName name_;
    std::optional<Clock> last_;
    std::optional<transport::Clock::time_point> try_again_;  // the last one has failed
    transport::Mailbox& mailbox_;
    const Written written_;
    bool writes_moment_ = false;  // one of these is being written
    std::optional<Snapshot> next_;
    std::deque<Snapshot> next_whole_;
    std::vector<Done> next_done_;
    std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
    std::thread writer_;
};

}  // namespace hocket::params
