// A worker's side of the protocol (message.hpp), for one server: its own pushes and pulls, and the work that
// it does for workers below it. A pure state machine: events in, messages out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

// Not thread-safe: use from one thread at a time.
class Node {
  public:
    Node(Worker self, std::size_t chunks, Arithmetic& arithmetic, Staleness staleness = 0);

    // Adds the worker's update of one chunk for the round. Call once for each. The value must not change
    // before it is covered().
    void push(Chunk chunk, Clock round, Value update);
    // Asks for weights of this clock or a later one. pulled() returns them, immediately if they are here.
    // Unbounded: asks for the server's current weights; clock is 0.
    void pull(Chunk chunk, Clock clock);

    // from: a worker or the_server. Throws transport::ProtocolError if no correct process sends this message
    // from there.
    void receive(Worker from, const Message& message);
    // The connection to the child has ended, or was replaced by a new one, on which the child sends
    // everything again.
    void child_lost(Worker child) { early_.erase(child); }
    // The connection to the parent has ended or cannot be made.
    void parent_lost();

    // letters() returns the messages to send, and pulled() the weights that have arrived, since the last
    // call.
    std::vector<Letter> letters() { return std::exchange(letters_, {}); }
    struct Pulled {
        Chunk chunk;
        Clock clock;
        Value weights;
    };
    std::vector<Pulled> pulled() { return std::exchange(pulled_, {}); }
    // Updates of rounds below this may be changed again.
    Clock covered() const { return covered_; }

    // Returns true if the node needs the weights again that pulled() has returned. With staleness 0 and no
    // children, the same weights are never asked for twice.
    bool keeps_weights() const { return staleness_ != 0 || !below_.empty(); }
    const Epoch& epoch() const { return epoch_; }
    Worker parent() const { return parent_; }
    // Returns the members that the server announced last.
    const std::vector<Member>& members() const { return members_; }
    // Returns the account of its server for the server that it has a new connection to. Until that one
    // announces an epoch, the node takes no weights: another worker may still have some of the old server,
    // and the new one would not know that their updates were seen.
    Recollection recollect();
    // The worker's own updates that are not covered. A null value stands for zeros.
    using Place = std::pair<Clock, Chunk>;
    const std::map<Place, Value>& kept() const { return updates_; }
    // Returns the number of messages held from this child that are of an epoch not announced here yet.
    std::size_t early(Worker child) const;
    // No server has applied this round or later ones: they need this worker's update.
    Clock next_round() const { return next_round_; }

  private:
    friend struct Inspection;  // gives tests access to the whole state

    struct Cached {
        Clock clock = 0;
        Value value;  // null: nothing yet
    };
    struct Wants {                   // for weights of one chunk
        std::set<Clock> own, asked;  // asked: sent to the parent
        std::map<Worker, std::set<Clock>> children;
        Clock pulls = 0;  // unbounded: `own` and `asked` hold numbers of pulls instead of clocks
    };

    void send(Worker to, Message message) { letters_.push_back({to, std::move(message)}); }
    void take(const Announcement& announcement);
    void take(Worker from, const Sum& sum);
    void take(Worker from, const Want& want);
    void take(const Weights& weights);
    void take_unbounded(const Weights& weights);
    bool is_for_later(Worker from, const Message& message, const Epoch& epoch);
    void take_early();
    void pass_on_if_complete(Place place);
    void ask(Chunk chunk);
    void serve(Chunk chunk);
    void forget_below(Clock clock);

    const Worker self_;
    const Staleness staleness_;
    Arithmetic& arithmetic_;

    std::vector<Letter> letters_;
    std::vector<Pulled> pulled_;
    Clock covered_ = 0, next_round_ = 0;

    Epoch epoch_;
    std::vector<Member> members_;
    std::vector<Departed> departed_;
    std::vector<Expected> expected_;
    Clock seen_ = 0;                // the highest clock of weights received
    bool has_recollected_ = false;  // since the last announcement
    Worker parent_ = the_server;
    Clock first_ = 0;
    // By child: the workers of its subtree, with their first rounds.
    std::map<Worker, std::map<Worker, Clock>> below_;
    std::vector<Clock> applied_;  // by chunk: rounds below this are applied, as far as known

    std::map<Place, Value> updates_;  // its own, until they are covered
    std::map<Place, std::map<Worker, Sum>>
        partial_;  // by child, and for the worker itself: sums of this epoch that are not yet passed on
    std::vector<Cached> cache_;
    std::vector<Wants> wants_;
    // By worker: messages of its latest epoch.
    std::map<Worker, std::vector<std::pair<Epoch, Message>>> early_;
};

}  // namespace hocket::params
