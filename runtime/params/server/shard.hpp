// One server's part of the weights, and its communication with the workers: the protocol's Root
// (protocol/root.hpp) with connections, and with the liveness of each worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/link.hpp"
#include "runtime/params/protocol/root.hpp"
#include "runtime/params/service/chunk_arithmetic.hpp"

namespace hocket::params {

// The refusal sent to workers that come back to a server that does not know them.
inline constexpr const char* begun_anew =
    "this server was begun anew, and knows nothing of the job; start it with its checkpoint (--restore)";

struct ShardTerms {
    std::chrono::milliseconds silence{2000};  // after this time a worker is suspected
    // After this time a worker that does not answer is taken out.
    std::chrono::milliseconds return_for{10000};
    std::chrono::milliseconds death{300};  // after this time a worker whose connection has ended is taken out
};

// Used only on the service's thread.
class Shard {
  public:
    // rack: this server's; workers with the same one are near it. every: the rounds between two checkpoints,
    // of all servers; workers must keep that many. has_checkpoints: this server writes checkpoints.
    Shard(std::shared_ptr<const Job> job, std::shared_ptr<const Layout> layout, std::uint32_t index,
          std::shared_ptr<Memory> memory, std::shared_ptr<const Calculator> calculator, ShardTerms terms,
          std::uint64_t every, bool has_checkpoints, const std::string& rack);

    // Founders take part from round 0 on. givers: those of them that have first weights, of whom the lowest
    // provides them; if there are none, the first weights are zeros.
    void begin(const std::vector<Worker>& founders, const std::vector<Worker>& givers);
    void restore(Snapshot snapshot);
    // After this call any worker continues from the checkpoint, even if no former member comes back and the
    // other servers' checkpoints are of other rounds.
    void accept_as_it_is() { is_accepted_ = true; }
    // racks: by server; "": unknown. The next tree is built with them.
    void know_racks(const std::vector<std::string>& racks);
    // Workers cannot know this server's address yet: none is late until they can.
    void hide() { is_hidden_ = true; }
    void be_found();

    // Handles a note or message from a worker's connection. Throws transport::ProtocolError.
    void take(Link& link, const nlohmann::json& note);
    void take(Link& link, const Message& message);
    void lost(Link& link, const std::string& why);  // the link is closed and will be destroyed
    void tick(transport::Clock::time_point now);

    ChunkShape shape_of(Chunk chunk) const;
    Bounds bounds() const;

    bool has_begun() const { return root_.has_value() && missing_weights_ == 0; }
    // Returns true if workers have connected and all have left.
    bool is_done() const { return had_workers_ && workers_.empty(); }
    Clock clock() const { return root_ ? root_->lowest_clock() : 0; }
    std::uint32_t incarnation() const { return root_ ? root_->epoch().incarnation : 0; }
    Snapshot snapshot() const { return root_->snapshot(); }
    // Returns snapshots of all rounds below multiples of kept_rounds, made since the last call.
    std::vector<Snapshot> take_cuts() { return root_ ? root_->take_cuts() : std::vector<Snapshot>(); }
    // Sets the whole rounds that are on the disk; new workers are told.
    void know_whole_rounds(std::vector<Clock> rounds) { whole_rounds_ = std::move(rounds); }
    void keep_what_lacks(const Snapshot& snapshot);
    // Returns true if workers have left, or wait for a checkpoint before they do.
    bool wants_checkpoint() const;
    void tell_who_waits_for_checkpoint();  // tells them that a checkpoint is being written
    void tell_all(const nlohmann::json& note);
    void tell(Worker worker, const nlohmann::json& note);  // if the worker is connected
    // Returns the link's worker. Throws transport::ProtocolError if the link has not named its worker yet.
    Worker worker_of(const Link& link) const;
    nlohmann::json stats() const;
    // Says, for people, what the shard needs before it can begin; "": nothing.
    std::string waits_for() const;

  private:
    struct Standing {
        Link* link = nullptr;  // null: not connected
        std::string at, rack;
        bool has_weights = false, is_suspected = false;
        bool was_cut_off = false;  // during the current silence
        Clock pushed = 0;          // rounds below this, as far as it has pushed
        bool is_named = false;     // by a worker that was with the server this one has replaced
        std::optional<transport::Clock::time_point> gone_since;  // since when it has had no connection
    };

    void reserve(Link& link, const nlohmann::json& note);
    void join(Link& link, const nlohmann::json& note);
    void resume(Link& link, const nlohmann::json& note);
    void flush(Link& link, const nlohmann::json& note);
    void take_postponed();
    void tell_postponed(Link& link);
    bool is_accepted() const { return is_accepted_ || has_resumed_; }
    void arrive(Worker worker, Link& link, const nlohmann::json& note);
    void ask_for_weights();
    void take_first_weights(const Weights& weights);
    void forget_giver(Worker worker);
    void remove(Worker worker);
    void tick(Worker worker, Standing& standing, transport::Clock::time_point now);
    void deliver();
    nlohmann::json places() const;
    int group_of(const std::string& rack);
    void require_possible(const Message& message) const;
    bool is_possible(const Recollection& recollection) const;
    Clock most_rounds_ahead() const;
    Clock latest_first() const;  // the latest round that any worker begins with
    Shape shape() const;

    const std::shared_ptr<const Job> job_;
    const std::shared_ptr<const Layout> layout_;
    const std::uint32_t index_;
    const ShardTerms terms_;
    const std::uint64_t every_, kept_rounds_;  // kept: 0 if it writes no checkpoints
    ChunkArithmetic arithmetic_;
    std::optional<Root> root_;
    std::map<Worker, Standing> workers_;
    std::map<std::string, int> groups_;
    std::vector<int> server_groups_;  // -1: unknown
    bool had_workers_ = false;
    std::vector<std::string> lost_;  // in words, since this server began
    bool has_resumed_ = false;       // workers of the server that this one has replaced have come back
    bool is_hidden_ = false;

    // Used before all first weights are here: the weights so far, and what workers have said meanwhile.
    Snapshot first_;
    std::size_t missing_weights_ = 0;
    std::set<Worker> givers_;      // who can give the weights, and are not given up; the lowest does
    const Link* asked_ = nullptr;  // the giver's connection, if it was asked on it
    std::map<Worker, nlohmann::json> early_;

    // For a server that continues from a checkpoint: any worker may continue from it. New workers are told
    // what the server has, and whether a worker has come back that can push what the checkpoint lacks; until
    // that is known they wait.
    bool is_accepted_ = false;
    std::map<Worker, nlohmann::json> postponed_;
    std::vector<Worker> told_expected_;  // as those in postponed_ were told last
    std::vector<Clock> whole_rounds_;
};

}  // namespace hocket::params
