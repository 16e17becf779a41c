// A worker's side of the protocol (message.hpp), for one server: its own pushes and pulls, and what it does
// for the workers below it. Pure: events in, messages out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

// One thread at a time.
class Node {
  public:
    Node(Worker self, std::size_t chunks, Arithmetic& arithmetic, Staleness staleness = 0);

    // The worker's update of one chunk, of the round of its clock. Once each. It must not change before it is
    // covered().
    void push(Chunk chunk, Clock round, Value update);
    // Asks for weights of this clock or a later one. pulled() has them, at once if they are here. Unbounded:
    // for those that the server has now; clock is 0.
    void pull(Chunk chunk, Clock clock);

    // from: a worker, or the_server. Throws transport::ProtocolError if no correct process says that there.
    void receive(Worker from, const Message& message);
    // The connection from below has ended; or another one is there in its place, on which all comes anew.
    void child_lost(Worker child) { early_.erase(child); }
    // The connection to the parent has ended, or cannot be made.
    void parent_lost();

    // What is to be sent, and what was pulled, since the last time that this was asked.
    std::vector<Letter> letters() { return std::exchange(letters_, {}); }
    struct Pulled {
        Chunk chunk;
        Clock clock;
        Value weights;
    };
    std::vector<Pulled> pulled() { return std::exchange(pulled_, {}); }
    // What was pushed of rounds below this may be changed again.
    Clock covered() const { return covered_; }

    // Whether it needs weights that pulled() has given. Without staleness nobody asks a node with nobody
    // below it twice for the same ones.
    bool keeps_weights() const { return staleness_ != 0 || !below_.empty(); }
    const Epoch& epoch() const { return epoch_; }
    Worker parent() const { return parent_; }
    // Who takes part, as the server has announced it last.
    const std::vector<Member>& members() const { return members_; }
    const std::vector<Departed>& departed() const { return departed_; }
    Clock seen() const { return seen_; }  // the highest clock of weights that have come here
    // Its own updates that are not covered. One that is null is zeros.
    using Place = std::pair<Clock, Chunk>;
    const std::map<Place, Value>& kept() const { return updates_; }
    // Messages of this child that are of an epoch that the server has not announced here yet.
    std::size_t early(Worker child) const;
    // No server has applied rounds from this one on: they need this worker's update.
    Clock next_round() const { return next_round_; }

  private:
    friend struct Inspection;  // tests look at all that there is

    struct Cached {
        Clock clock = 0;
        Value value;  // null: nothing yet
    };
    struct Wants {                   // for weights of one chunk
        std::set<Clock> own, asked;  // asked: of the parent
        std::map<Worker, std::set<Clock>> children;
        Clock pulls = 0;  // unbounded: `own` and `asked` have their numbers instead of clocks
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
    Clock seen_ = 0;
    Worker parent_ = the_server;
    Clock first_ = 0;
    std::map<Worker, std::map<Worker, Clock>> below_;  // by child: its subtree, with the first round of each
    std::vector<Clock> applied_;                       // by chunk: rounds below this are, for all we know

    std::map<Place, Value> updates_;  // its own, until they are covered
    std::map<Place, std::map<Worker, Sum>>
        partial_;  // by child, and itself: of this epoch, not yet passed on
    std::vector<Cached> cache_;
    std::vector<Wants> wants_;
    std::map<Worker, std::vector<std::pair<Epoch, Message>>> early_;  // each one's of its latest epoch
};

}  // namespace hocket::params
