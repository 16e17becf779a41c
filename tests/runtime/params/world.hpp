// A small parameter service without sockets: the real state machines of all its processes, and the messages
// between them. A test takes it from state to state, in every order that networks and failures allow.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/params/protocol/node.hpp"
#include "runtime/params/protocol/root.hpp"

namespace hocket::params {

// The largest number of each fault; each may happen at any time.
struct Faults {
    int crashes = 0;         // of a worker
    int joins = 0;           // of a new worker
    int broken_links = 0;    // between two workers; both live
    int cuts = 0;            // between a server and a worker; later they have a new connection
    int server_crashes = 0;  // another process goes on from a snapshot that was taken at any time before
    int restarts = 0;        // in order: the snapshot is of that moment
    int give_ups = 0;        // a server goes on without a worker that lives, and that it has no connection to
    int leaves = 0;          // of a worker that is done, in order
    int blackouts =
        0;           // all processes end, and servers go back to the last cut that all have; a worker comes
    int closes = 0;  // of a worker in the middle of a round, in order: it has pushed a chunk of one server
};

struct Setup {
    int workers = 3, servers = 2;
    Chunk chunks = 1;  // of each server
    Clock rounds = 1;  // each worker pulls and pushes in each, and pulls once more
    Staleness staleness = 0;
    Shape shape = {Shape::Kind::degree, 2};
    Faults faults = {};
    bool wants_overtake = false;  // sums
    bool sums_overtake = false;   // those of other chunks
    Clock cut_every = 0;          // rounds; 0: servers have no snapshots but those that are events
};

struct Event {
    enum class Kind {
        deliver,
        overtake,
        overtake_sums,
        crash,
        crash_and_lose,
        come,
        reserve,
        join,
        break_link,
        cut,
        mend,
        snapshot,
        replace,
        give_up,
        restart,
        give_up_living,
        announce_leaving,
        blackout,
        leave,
        close
    };
    Kind kind;
    int server = 0;
    Worker from = 0, to = 0;  // to: of messages and links; or the_server
    std::string text() const;
    bool operator==(const Event&) const = default;
};

class World {
  public:
    explicit World(const Setup& setup);

    std::vector<Event> events() const;  // the possible next events
    void happen(const Event& event);

    // Two worlds with the same bytes have the same future.
    std::string digest() const;
    // The first thing that was wrong; "": nothing.
    const std::string& wrong() const { return wrong_; }
    // In a final state: the events that are missing. "": none.
    std::string unfinished() const;

  private:
    struct Place {  // of a worker
        Clock clock = 0, first = 0;
        // By server: the incarnations, from the first to before the second, that went on without it while it
        // lived.
        std::map<int, std::pair<std::uint32_t, std::uint32_t>> given_up = {};
        bool has_announced = false;  // that it leaves
        bool is_closing = false;     // in the middle of its round
        bool has_begun = false, has_pulled = false, is_done = false, is_dead = false;
        std::set<std::pair<int, Chunk>> awaited = {};  // by its pull: server and chunk
        std::vector<Node> nodes = {};                  // by server
        std::vector<Clock> reserved = {};              // by server, until it has joined all
        std::size_t joined = 0;                        // servers
        // By server and chunk: the updates in the weights that it has pulled, as worker and round. While the
        // worker lives, none of them may vanish.
        std::map<std::pair<int, Chunk>, std::set<std::pair<Worker, Clock>>> seen = {};
    };
    using Link = std::tuple<int, Worker, Worker>;  // server, from, to
    // Worlds share them: most states differ in few. Null: the connection has ended.
    using Messages = std::deque<std::shared_ptr<const Message>>;

    void add_worker(Worker number);
    void deliver(const Event& event);
    void crash(const Event& event);
    void cut(const Event& event);
    void mend(const Event& event);
    bool come_back(const Event& event);
    void leave(Worker number);
    void close(const Event& event);
    bool may_close(const Place& worker) const;
    bool may_leave(const Place& worker) const;
    void black_out();
    void check_whole(const Node::Pulled& pulled, const std::string& where);
    bool has_snapshots() const {
        return setup_.faults.server_crashes + setup_.faults.restarts + setup_.faults.blackouts > 0;
    }
    void replace(int server);
    void reserve(const Event& event);
    void join(const Event& event);
    void settle();
    void post(int server, Worker from, std::vector<Letter> letters);
    bool go_on(Worker number, Place& worker);
    void check(Worker by, Clock clock, int server, const Node::Pulled& pulled);
    static bool has_heard(const Place& worker, int server);
    bool counts(const Place& worker, int server, std::uint32_t incarnation) const;
    bool vanished(int server, const std::pair<Worker, Clock>& update, const Value& weights) const;
    std::string declared_in_vain(int server, const Lost& said) const;
    void check_seen(int server, std::uint32_t incarnation, const Node::Pulled& pulled,
                    const std::string& where);
    void check_unbounded(Worker by, Clock clock, const Node::Pulled& pulled, const std::string& where);
    bool is_known(int server, Worker number) const;
    bool will_be_refused(int server, Worker number) const;
    void complain(const std::string& text);
    Root& root(int server) { return *roots_[static_cast<std::size_t>(server)]; }
    const Root& root(int server) const { return *roots_[static_cast<std::size_t>(server)]; }
    Node& node(int server, Worker worker) {
        return workers_.at(worker).nodes[static_cast<std::size_t>(server)];
    }

    Setup setup_;
    Faults left_;
    std::vector<std::optional<Root>> roots_;
    std::vector<Snapshot> snapshots_;
    std::vector<std::map<Clock, Snapshot>> cuts_;  // by server
    std::optional<Clock> went_back_;               // all servers, to this one
    std::map<Worker, Place> workers_;
    std::map<Link, Messages> links_;
    std::set<std::pair<int, Worker>> cut_;  // server and worker
    std::vector<std::vector<Lost>> lost_;   // by server: the losses that it has declared
    std::string wrong_;
};

}  // namespace hocket::params
