// The server's side of the protocol (message.hpp): applies rounds, answers wants, decides on the tree.
// Pure: events in, messages out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/params/protocol/message.hpp"
#include "runtime/params/protocol/tree.hpp"

namespace hocket::params {

// What outlives a server: it can be continued from this, in a new incarnation.
struct Snapshot {
    std::uint32_t incarnation = 0;
    std::vector<Value> weights;      // by chunk
    std::vector<Clock> clocks;       // by chunk
    std::map<Worker, Clock> firsts;  // of the members: the first round that each takes part in
    // Unbounded: of each member, by chunk: its rounds below this are applied.
    std::map<Worker, std::vector<Clock>> applied = {};
    std::map<Worker, Departed> departed = {};  // all that have ever been members, and are not any more
};

// What a worker knows that comes from the server whose place this one has taken.
struct Recollection {
    std::vector<Member> members;  // as they were announced to it last
    std::vector<Departed> departed;
    Clock seen = 0;    // the highest clock of weights that it has had
    Clock pushed = 0;  // it has pushed nothing of rounds from this one on
};

// One thread at a time.
class Root {
  public:
    // members: of the snapshot; they are expected to come back.
    Root(Snapshot from, Shape shape, Arithmetic& arithmetic, Staleness staleness = 0);

    // ---- Who takes part

    // A worker wants to come. No round is applied without it from the one that is returned on, which is as
    // late as it must be, so that nobody waits for it before that: staleness rounds after the last that
    // others can have begun. A worker that joins several servers takes the latest of what they say.
    Clock reserve(Worker worker);
    // It takes part from `first` on, not before what reserve() has returned. False: rounds from there on have
    // been applied without it; another server's place may have been taken since. It must reserve again.
    bool join(Worker worker, int group, Clock first);
    // A member of a server whose place this one has taken. Who else was a member there is expected, too.
    // False: as for join(), or that server went on without it; its updates are lost.
    bool resume(Worker worker, int group, const Recollection& recollection);
    // It has ended, or has been given up: it takes part no longer.
    void remove(Worker worker);
    // It has pushed all that it ever will, updates of rounds below this, and leaves when a snapshot has them.
    void leave_after(Worker worker, Clock clock);
    // It does not answer, and may do so again: it still takes part, but nobody waits for what is below it.
    void suspect(Worker worker);
    // It answers again.
    void trust(Worker worker);
    // Of all servers, for Shape: the next epoch's tree is made with them.
    void know_server_groups(std::vector<int> groups) { shape_.server_groups = std::move(groups); }

    // ---- What members say

    // Throws transport::ProtocolError if no correct worker says that.
    void receive(Worker from, const Message& message);

    // What is to be sent, since the last time that this was asked.
    std::vector<Letter> letters() { return std::exchange(letters_, {}); }

    // ---- How far it is

    const Epoch& epoch() const { return epoch_; }
    const Tree& tree() const { return tree_; }
    bool has(Worker worker) const { return members_.contains(worker); }
    // Updates of workers that do not come back, which the server had whose place this one has taken: since
    // the last time that this was asked.
    std::vector<Lost> lost() { return std::exchange(lost_, {}); }
    std::optional<Clock> first_of(Worker worker) const;  // the round that it takes part from, if it is known
    Clock clock(Chunk chunk) const { return clocks_[chunk]; }
    const Value& weights(Chunk chunk) const { return weights_[chunk]; }
    Clock lowest_clock() const;
    bool is_whole() const;  // all weights are of one clock, or there are no rounds
    // Somebody takes part here who did so before the server whose place this one has taken ended, or there
    // was none; or all of those have been given up.
    bool has_resumed() const { return has_resumed_; }
    std::vector<Worker> expected() const;  // of those: who has not come back, ascending
    bool expects_anybody() const { return !expected().empty(); }

    // Where rounds are: from now on a snapshot is made of the weights at each multiple of this clock, of each
    // chunk as it is when it gets there. Those of one clock fit together, also those of several servers.
    void cut_every(Clock every) { every_ = every; }
    std::vector<Snapshot> take_cuts() { return std::exchange(finished_cuts_, {}); }  // since the last time
    // All updates of a worker that leaves are in the weights, but in no snapshot yet.
    bool waits_for_snapshot(Worker worker) const;
    // Weights have updates of workers that have gone, and no snapshot has them yet.
    bool has_unsaved_departures() const;
    Snapshot snapshot() const;
    // Workers keep updates that are not in it, for a server that takes this one's place. Without it they keep
    // what is not applied.
    void keep_what_lacks(const Snapshot& snapshot);

  private:
    struct Standing {
        Clock first = 0;
        int group = 0;
        bool is_here = false;     // not only reserved, or expected
        bool was_before = false;  // a member of the server whose place this one has taken
        std::optional<Clock> leaves_after = {};
        std::optional<Clock> pushed_before = {};  // there: rounds below this, as it says itself
        bool is_suspected = false;
    };
    struct Chunks {                                   // of one chunk: what waits to be applied
        std::map<Clock, std::map<Worker, Sum>> sums;  // by round, and by who sent it
        std::map<Worker, std::set<Clock>> wants;      // by child
    };
    using Covers = std::map<Worker, Clock>;

    friend struct Inspection;  // tests look at all that there is

    void send(Worker to, Message message) { letters_.push_back({to, std::move(message)}); }
    bool is_child(Worker worker) const {
        return tree_.contains(worker) && tree_.parent(worker) == the_server;
    }
    bool goes_without(Worker worker, Clock first) const;
    bool is_below(Worker worker, Worker child) const;
    Tree new_tree() const;
    void skip_rounds_without_workers();
    void know_members();
    void depart(const Departed& departed);
    Clock applied_by(Worker worker) const;
    bool has_nothing_to_add(Worker worker, const Standing& standing) const;
    void name_what_is_lost();
    void begin_epoch();
    void take(Worker from, const Sum& sum);
    void take(Worker from, const Want& want);
    void take_lost_parent(Worker from, Epoch epoch);
    struct Cut {                     // of which some chunks are there
        std::vector<Value> weights;  // null: not yet
        std::size_t missing;
    };
    void cut(Chunk chunk, Clock from, Clock to);
    void finish_cut(Clock clock);
    void describe_members(Snapshot& snapshot, std::optional<Clock> cut) const;
    void apply(Chunk chunk, const std::vector<Value>& parts, const std::vector<Worker>& workers);
    void apply_at_once(const Sum& sum);
    void apply_what_is_complete(Chunk chunk);
    std::optional<std::vector<Sum>> complete(Chunk chunk) const;
    void answer(Chunk chunk);
    void tell_what_is_covered();
    void tell_what_is_covered(Worker worker, Clock applied);

    Shape shape_;
    Arithmetic& arithmetic_;
    Epoch epoch_;
    Tree tree_;  // of the members that are here
    // Each could not reach that parent. Forgotten when somebody comes: then it may try again.
    std::set<std::pair<Worker, Worker>> apart_;
    std::map<Worker, Standing> members_;
    std::vector<Value> weights_;
    std::vector<Clock> clocks_;
    std::vector<Chunks> waiting_;
    std::vector<Letter> letters_;
    const Staleness staleness_;
    std::map<Worker, std::vector<Clock>> applied_;  // unbounded: as in Snapshot
    std::optional<Covers> kept_from_;               // by worker: what a snapshot has; 0 if it is not there
    Clock kept_clock_ = 0;                          // that snapshot's
    Covers covered_;                                // by worker: what it was told
    std::map<Worker, Departed> departed_;
    std::set<Worker> saved_departed_;  // those that are so in the last snapshot: what they pushed is in it
    // Of a server that goes on from a snapshot: its lowest clock, and the highest that members have seen
    // since.
    const Clock restored_;
    Clock seen_ = 0;
    Clock pushed_ = 0;  // they have pushed nothing of rounds from this one on
    bool has_resumed_ = false;
    std::map<Worker, Lost>
        missed_;  // members from before that were taken out: what they may have pushed there
    std::vector<Lost> lost_;

    Clock every_ = 0;            // 0: there are no cuts
    std::map<Clock, Cut> cuts_;  // by clock
    Clock last_cut_ = 0;
    std::vector<Snapshot> finished_cuts_;
};

}  // namespace hocket::params
