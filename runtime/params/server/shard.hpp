// One server's part of the weights, and its conversations with the workers: the protocol's Root
// (protocol/root.hpp) with connections, and with a view of who is there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/link.hpp"
#include "runtime/params/protocol/root.hpp"
#include "runtime/params/service/chunk_arithmetic.hpp"

namespace hocket::params {

// What workers are told that come back to a server that does not know them.
inline constexpr const char* begun_anew =
    "this server was begun anew, and knows nothing of the job; start it with its checkpoint (--restore)";

struct ShardTerms {
    std::chrono::milliseconds silence{2000};      // after which a worker is thought not to answer
    std::chrono::milliseconds return_for{10000};  // after which a worker that does not answer is taken out
    std::chrono::milliseconds death{300};         // after which one whose connection has ended is taken out
};

// Of the service's thread.
class Shard {
  public:
    // rack: this server's; workers of the same one are near it.
    // every: of all servers, how many rounds are between two checkpoints, so that workers must keep them.
    // has_checkpoints: this one writes any.
    Shard(std::shared_ptr<const Job> job, std::shared_ptr<const Layout> layout, std::uint32_t index,
          std::shared_ptr<Memory> memory, std::shared_ptr<const Calculator> calculator, ShardTerms terms,
          std::uint64_t every, bool has_checkpoints, const std::string& rack);

    // Founders take part from round 0 on. has_weights: one of them will give the first weights; else they are
    // zeros.
    void begin(const std::vector<Worker>& founders, bool has_weights);
    void restore(Snapshot snapshot);
    // After that: whoever comes goes on from it, also if nobody that took part comes back, and it does not
    // fit together with what the other servers have.
    void accept_as_it_is() { is_accepted_ = true; }
    // Of each server, in their order; "": not known. The next tree is made with them.
    void know_racks(const std::vector<std::string>& racks);
    // Workers cannot know where it is: nobody is late before they can.
    void hide() { is_hidden_ = true; }
    void be_found();

    // A note or message of a worker's connection. Throws transport::ProtocolError.
    void take(Link& link, const nlohmann::json& note);
    void take(Link& link, const Message& message);
    void lost(Link& link, const std::string& why);  // it is closed, and will be destroyed
    void tick(transport::Clock::time_point now);

    ChunkShape shape_of(Chunk chunk) const;
    Bounds bounds() const;

    bool has_begun() const { return root_.has_value() && missing_weights_ == 0; }
    // Whether workers have come, and all have left.
    bool is_done() const { return had_workers_ && workers_.empty(); }
    Clock clock() const { return root_ ? root_->lowest_clock() : 0; }
    std::uint32_t incarnation() const { return root_ ? root_->epoch().incarnation : 0; }
    Snapshot snapshot() const { return root_->snapshot(); }
    // Of all rounds below multiples of kept_rounds, since the last time that this was asked.
    std::vector<Snapshot> take_cuts() { return root_ ? root_->take_cuts() : std::vector<Snapshot>(); }
    // Which of these are on the disk: new workers are told.
    void know_whole_rounds(std::vector<Clock> rounds) { whole_rounds_ = std::move(rounds); }
    void keep_what_lacks(const Snapshot& snapshot);
    // Workers have gone, or wait for it before they do.
    bool wants_checkpoint() const;
    void tell_who_waits_for_checkpoint();  // that one is being written
    void tell_all(const nlohmann::json& note);
    void tell(Worker worker, const nlohmann::json& note);  // if it is there
    // Throws transport::ProtocolError if it has not said.
    Worker worker_of(const Link& link) const;
    nlohmann::json stats() const;
    // What it needs before it can begin, for people; "": nothing.
    std::string waits_for() const;

  private:
    struct Standing {
        Link* link = nullptr;  // null: there is none now
        std::string at, rack;
        bool has_weights = false, is_suspected = false;
        bool was_cut_off = false;  // in the silence that goes on now
        Clock pushed = 0;          // it has pushed of rounds below this
        bool is_named = false;     // by a worker that had another server in this one's place
        std::optional<transport::Clock::time_point> gone_since;  // it has had no connection
    };

    void reserve(Link& link, const nlohmann::json& note);
    void join(Link& link, const nlohmann::json& note);
    void resume(Link& link, const nlohmann::json& note);
    void flush(Link& link, const nlohmann::json& note);
    void take_postponed();
    bool is_accepted() const { return is_accepted_ || has_resumed_; }
    void arrive(Worker worker, Link& link, const nlohmann::json& note);
    void ask_for_weights();
    void take_first_weights(const Weights& weights);
    void remove(Worker worker);
    void tick(Worker worker, Standing& standing, transport::Clock::time_point now);
    void deliver();
    nlohmann::json places() const;
    int group_of(const std::string& rack);
    void require_possible(const Message& message) const;
    Clock latest_first() const;  // round that a worker takes part in
    Shape shape() const;

    const std::shared_ptr<const Job> job_;
    const std::shared_ptr<const Layout> layout_;
    const std::uint32_t index_;
    const ShardTerms terms_;
    const std::uint64_t every_, kept_rounds_;  // kept: 0, if it writes none
    ChunkArithmetic arithmetic_;
    std::optional<Root> root_;
    std::map<Worker, Standing> workers_;
    std::map<std::string, int> groups_;
    std::vector<int> server_groups_;  // -1: not known
    bool had_workers_ = false;
    std::vector<std::string> lost_;  // in words, since this server has begun
    bool has_resumed_ = false;       // workers of the server whose place this one took
    bool is_hidden_ = false;

    // Before all first weights are here: what they are, and what workers have said meanwhile.
    Snapshot first_;
    std::size_t missing_weights_ = 0;
    std::optional<Worker> giver_;
    std::map<Worker, nlohmann::json> early_;

    // Of a server that goes on from a checkpoint. New workers are told what it has, and whether anybody has
    // come back who can push what it lacks; until that is known they wait.
    bool is_accepted_ = false;
    std::map<Worker, nlohmann::json> postponed_;
    std::vector<Clock> whole_rounds_;
};

}  // namespace hocket::params
