// The server's side of the protocol (message.hpp): applies rounds, answers wants, and decides on the tree. A
// pure state machine: events in, messages out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/params/protocol/message.hpp"
#include "runtime/params/protocol/tree.hpp"

namespace hocket::params {

// The state that outlives a server: a server of a new incarnation can continue from it.
struct Snapshot {
    std::uint32_t incarnation = 0;
    std::vector<Value> weights;      // by chunk
    std::vector<Clock> clocks;       // by chunk
    std::map<Worker, Clock> firsts;  // of the members: the first round that each takes part in
    // Unbounded: by member and chunk; the member's rounds below this are applied.
    std::map<Worker, std::vector<Clock>> applied = {};
    std::map<Worker, Departed> departed = {};  // all former members
};

// Not thread-safe: use from one thread at a time.
class Root {
  public:
    // The snapshot's members are expected to come back.
    Root(Snapshot from, Shape shape, Arithmetic& arithmetic, Staleness staleness = 0);

    // ---- Members

    // Reserves a place for a worker that wants to join. No round from the returned one on is applied without
    // the worker. The returned round is staleness rounds after the last that others can have begun: late
    // enough that no other worker waits for this one before it has joined. A worker that joins several
    // servers begins at the latest of their rounds.
    Clock reserve(Worker worker);
    // Makes the worker a member from round `first` on, which must not be before the round that reserve()
    // returned. Returns false if rounds from there on have been applied without it, which happens if the
    // server was replaced since. The worker must then reserve again.
    bool join(Worker worker, int group, Clock first);
    // Takes back a member of the server that this one has replaced. The other members of that server are
    // expected back, too. Returns false, as join() does, or if that server continued without the worker; the
    // worker's updates are then lost.
    bool resume(Worker worker, int group, const Recollection& recollection);
    // Removes a worker that has ended or has been given up: it takes part no longer.
    void remove(Worker worker);
    // Notes that the worker has pushed all of its updates, those of rounds below `clock`, and waits to leave.
    // Once they are applied, snapshots list the worker as departed. Covered then tells it that it may leave:
    // once such a snapshot is kept or, without snapshots, at once.
    void leave_after(Worker worker, Clock clock);
    // Marks a worker that does not answer, but may do so again: it still takes part, but no worker is placed
    // below it in the tree.
    void suspect(Worker worker);
    // The worker answers again.
    void trust(Worker worker);
    // Sets the groups of all servers, for Shape; used from the next epoch's tree on.
    void know_server_groups(std::vector<int> groups) { shape_.server_groups = std::move(groups); }

    // ---- Messages from members

    // Throws transport::ProtocolError if no correct worker sends this message.
    void receive(Worker from, const Message& message);

    // Returns the messages to send since the last call.
    std::vector<Letter> letters() { return std::exchange(letters_, {}); }

    // ---- Progress

    const Epoch& epoch() const { return epoch_; }
    const Tree& tree() const { return tree_; }
    bool has(Worker worker) const { return members_.contains(worker) && !is_given_up(worker); }
    // Returns, since the last call, the updates lost when the previous server was replaced: those of workers
    // that do not come back.
    std::vector<Lost> lost() { return std::exchange(lost_, {}); }
    std::optional<Clock> first_of(Worker worker) const;  // the first round that it takes part in, if known
    // Returns a clock: the weights have all updates of the worker's rounds below it.
    Clock applied_by(Worker worker) const;
    Clock clock(Chunk chunk) const { return clocks_[chunk]; }
    const Value& weights(Chunk chunk) const { return weights_[chunk]; }
    Clock lowest_clock() const;
    Clock highest_clock() const;
    bool is_whole() const;  // all weights are of one clock, or there are no rounds
    // Returns true if a worker takes part here that was a member of the server which this one has replaced,
    // if there was no such server, or if all of its members have been given up.
    bool has_resumed() const { return has_resumed_; }
    std::vector<Worker> expected() const;  // those of them that have not come back, ascending
    bool expects_anybody() const { return !expected().empty(); }

    // Makes a snapshot of the weights at each multiple of `every`, from each chunk as it reaches that clock.
    // Snapshots of one clock are consistent, also across servers. Has no effect with unbounded staleness.
    void cut_every(Clock every) { every_ = every; }
    std::vector<Snapshot> take_cuts() { return std::exchange(finished_cuts_, {}); }  // since the last call
    // Returns true if all updates of a leaving worker are in the weights, but not yet in a snapshot.
    bool waits_for_snapshot(Worker worker) const;
    // Returns true if the weights have updates of departed workers that no snapshot has yet.
    bool has_unsaved_departures() const;
    Snapshot snapshot() const;
    // Tells workers to keep the updates that the snapshot lacks, for a server that replaces this one. Without
    // a call, workers keep what is not applied.
    void keep_what_lacks(const Snapshot& snapshot);

  private:
    struct Standing {
        Clock first = 0;
        int group = 0;
        bool is_here = false;     // not only reserved or expected
        bool was_before = false;  // a member of the server that this one has replaced
        bool is_given_up = false;
        std::optional<Clock> leaves_after = {};
        std::optional<Clock> pushed_before = {};  // there, by its own account: rounds below this
        bool is_suspected = false;
    };
    struct Chunks {                                   // by chunk: sums and wants that wait for a round
        std::map<Clock, std::map<Worker, Sum>> sums;  // by round, and by sender
        std::map<Worker, std::set<Clock>> wants;      // by child
    };
    using Covers = std::map<Worker, Clock>;

    friend struct Inspection;  // gives tests access to the whole state

    void send(Worker to, Message message) { letters_.push_back({to, std::move(message)}); }
    bool is_child(Worker worker) const {
        return tree_.contains(worker) && tree_.parent(worker) == the_server;
    }
    bool goes_without(Worker worker, Clock first) const;
    bool is_given_up(Worker worker) const;
    void let_go_of_given_up();
    bool is_below(Worker worker, Worker child) const;
    Tree new_tree() const;
    void skip_rounds_without_workers();
    void know_members();
    void depart(const Departed& departed);
    void depart_later(Departed& known, Clock end);
    void doubt_departure(Worker worker, Clock seen);
    bool is_saved(const Departed& departed) const;
    bool has_nothing_to_add(Worker worker, const Standing& standing) const;
    void name_what_is_lost();
    void begin_epoch();
    void take(Worker from, const Sum& sum);
    void take(Worker from, const Want& want);
    void take_lost_parent(Worker from, Epoch epoch);
    struct Cut {                     // an unfinished snapshot of whole rounds
        std::vector<Value> weights;  // null: not reached yet
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
    // Pairs of a worker and a parent that it could not reach. Cleared when a worker joins or answers again,
    // to allow another try.
    std::set<std::pair<Worker, Worker>> apart_;
    std::map<Worker, Standing> members_;
    std::vector<Value> weights_;
    std::vector<Clock> clocks_;
    std::vector<Chunks> waiting_;
    std::vector<Letter> letters_;
    const Staleness staleness_;
    std::map<Worker, std::vector<Clock>> applied_;  // unbounded: as in Snapshot
    std::optional<Covers> kept_from_;  // by worker: rounds that a snapshot has; 0 if the worker is not in it
    Clock kept_clock_ = 0;             // that snapshot's clock
    Covers covered_;                   // by worker: the last Covered sent to it
    std::map<Worker, Departed> departed_;
    // By departed worker: a snapshot has its updates of rounds below this. More may have been applied since
    // if it closed in the middle of a round.
    Covers saved_departed_;
    // Workers that had departed in the snapshot that this server continues from, where it is not known yet
    // whether others have seen more of their updates.
    std::set<Worker> departed_before_;
    const Clock restored_;  // if this server continues from a snapshot: the snapshot's lowest clock
    // By worker: the highest clock of weights with its updates that others have seen. Their accounts say it:
    // of those that know the worker as a member, or where they know that its updates end.
    std::map<Worker, Clock> seen_;
    Clock pushed_ = 0;  // members have pushed nothing of this round or later ones
    bool has_resumed_ = false;
    // By member of the old server that was taken out, there or here: the updates that it may have pushed
    // there.
    std::map<Worker, Lost> missed_;
    std::vector<Lost> lost_;

    Clock every_ = 0;            // 0: no cuts
    std::map<Clock, Cut> cuts_;  // by clock
    Clock last_cut_ = 0;
    std::vector<Snapshot> finished_cuts_;
};

}  // namespace hocket::params
