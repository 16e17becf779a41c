// A small parameter service without sockets: the real state machines of all its processes, and the messages
// between them. A test takes it from state to state, in every order that networks and failures allow.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/params/protocol/node.hpp"
#include "runtime/params/protocol/root.hpp"

namespace hocket::params {

// How often each may happen, at any time.
struct Faults {
    int crashes = 0;         // of a worker
    int joins = 0;           // of a new worker
    int broken_links = 0;    // between two workers; both live
    int cuts = 0;            // between a server and a worker; later they have a new connection
    int server_crashes = 0;  // another process goes on from a snapshot that was taken at any time before
};

struct Setup {
    int workers = 3, servers = 2;
    Chunk chunks = 1;  // of each server
    Clock rounds = 1;  // each worker pulls and pushes in each, and pulls once more
    Staleness staleness = 0;
    Shape shape = {Shape::Kind::degree, 2};
    Faults faults = {};
    bool wants_overtake = false;  // sums
};

struct Event {
    enum class Kind {
        deliver,
        overtake,
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
        give_up
    };
    Kind kind;
    int server = 0;
    Worker from = 0, to = 0;  // to: of messages and links; or the_server
    std::string text() const;
};

class World {
  public:
    explicit World(const Setup& setup);

    std::vector<Event> events() const;  // what can happen next
    void happen(const Event& event);

    // Two worlds with the same text have the same future.
    std::string text() const;
    // The first thing that was wrong; "": nothing.
    const std::string& wrong() const { return wrong_; }
    // Once nothing can happen any more: what should have. "": nothing.
    std::string unfinished() const;

  private:
    struct Place {  // of a worker
        Clock clock = 0, first = 0;
        bool has_begun = false, has_pulled = false, is_done = false, is_dead = false;
        std::set<std::pair<int, Chunk>> awaited = {};  // by its pull: server and chunk
        std::vector<Node> nodes = {};                  // by server
        std::vector<Clock> reserved = {};              // by server, until it has joined all
        std::size_t joined = 0;                        // servers
    };
    using Link = std::tuple<int, Worker, Worker>;  // server, from, to

    void add_worker(Worker number);
    void deliver(const Event& event);
    void crash(const Event& event);
    void cut(const Event& event);
    void mend(const Event& event);
    void leave(Worker number);
    void replace(int server);
    void join(const Event& event);
    void settle();
    void post(int server, Worker from, std::vector<Letter> letters);
    bool go_on(Worker number, Place& worker);
    void check(Worker by, Clock clock, int server, const Node::Pulled& pulled);
    void check_unbounded(Worker by, Clock clock, const Node::Pulled& pulled, const std::string& where);
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
    std::map<Worker, Place> workers_;
    std::map<Link, std::deque<std::optional<Message>>> links_;  // nothing: the connection has ended
    std::set<std::pair<int, Worker>> cut_;                      // server and worker
    std::string wrong_;
};

}  // namespace hocket::params
