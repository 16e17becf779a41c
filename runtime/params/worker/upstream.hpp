// A worker's side of one server's shard: the protocol's Node (protocol/node.hpp) with its connections: to the
// server, to its parent in the tree, and from its children.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/dialling.hpp"
#include "runtime/params/links/link.hpp"
#include "runtime/params/protocol/node.hpp"
#include "runtime/params/service/chunk_arithmetic.hpp"
#include "runtime/params/worker/send_queue.hpp"
#include "runtime/params/worker/send_window.hpp"

namespace hocket::params {

// What all shards of a worker share.
struct WorkerSelf {
    Worker number = 0;
    std::string at, rack;
    std::string run;  // of the job: the same program's next one is another
    bool has_weights = false;
    Clock window = 2;  // how many rounds' updates it may keep until they are covered
    std::string secret;
    Staleness staleness = 0;  // of the job
    int priority = 0;
    PriorityGate* gate = nullptr;             // that all of the worker's connections are read through
    std::chrono::milliseconds silence{2000};  // until a server says another one
    std::chrono::milliseconds timeout{60000};
};

// Of the service's thread.
class Upstream final : private Link::Owner {
  public:
    struct Handlers {
        std::function<void()> reserved;   // first() is known
        std::function<void()> postponed;  // awaited() is known, and the server reserves nothing before
        std::function<void()> joined;     // it takes part
        std::function<void()> news;       // pulled(), covered() or epoch() may have changed
        std::function<void(Status status, const std::string& why)> failed;  // for good
        std::function<Value(Chunk chunk)> first_weights;
        std::function<void(const nlohmann::json& note)> note;  // that is not about this shard
    };
    Upstream(transport::SocketLoop& loop, transport::Mailbox& mailbox, std::shared_ptr<Memory> memory,
             std::shared_ptr<const Layout> layout, std::shared_ptr<const Calculator> calculator,
             std::uint32_t server, const WorkerSelf& self, Handlers handlers);

    // link: a connection with the server that is there already, or null.
    void start(std::string at, std::unique_ptr<Link> link);
    bool is_reserved() const { return is_reserved_ || has_joined(); }
    // What the server goes on from, once it is reserved.
    struct Begun {
        bool is_accepted = true;  // false: from a checkpoint, and nobody has come back who took part
        std::optional<Clock>
            round;  // it has all rounds below this, and nothing of others; nothing: it is torn
        std::vector<Clock> whole_rounds;  // of which it has such checkpoints
    };
    const Begun& begun() const { return begun_; }
    // Workers from before the server was replaced, which it expects back before it takes a new one in; none:
    // it does not wait for any.
    const std::vector<Worker>& awaited() const { return awaited_; }
    void reserve_again();  // what it goes on from may be another round by now
    // Again, if another server has said a later round meanwhile.
    void join(Clock first);
    // The answer has this number; what was asked for before is not wanted any more.
    void ask_for_checkpoint(std::uint64_t number);
    void server_has_moved(const std::string& at);
    // Before it leaves: the server writes a checkpoint once it has applied all updates of rounds below this.
    void flush(Clock clock);
    bool is_flushing() const { return is_flushing_; }  // it writes that one, or another server must first
    void leave();
    bool has_left() const { return !server_ || !server_->is_open(); }
    void tick(transport::Clock::time_point now);

    Node& node() { return node_; }
    void deliver();  // after the node was told something
    Clock first() const { return first_; }
    // How many rounds more the server wants to be kept, because they are in no checkpoint.
    Clock kept_rounds() const { return kept_rounds_; }
    bool has_joined() const { return node_.epoch().number > 0; }
    const std::string& at() const { return at_; }
    bool is_away() const { return !server_ || is_silent(*server_); }
    // What the server says to be wrong with it, for people; "": nothing.
    std::string trouble() const;
    // The connection of a worker that says that it is a child of this one for this shard.
    bool may_adopt(Worker child) const { return child != self_.number; }
    void adopt(Worker child, std::unique_ptr<Link> link);

    std::uint64_t bytes_sent() const;
    std::uint64_t bytes_received() const;
    std::uint64_t reconnections() const { return reconnections_; }
    std::size_t children() const { return children_.size(); }

  private:
    struct Child {
        Worker worker;
        std::unique_ptr<Link> link;
    };

    void dial_server();
    void dialled_server(transport::Socket socket, const std::string& error);
    void greet();
    void lost_server(const std::string& why);
    void take_note(const nlohmann::json& note);
    void give_weights();
    void require_possible(const Link& link, Worker from, const Message& message) const;
    std::size_t most_rounds() const;
    void connect_to_server(std::unique_ptr<Link> link);
    void dial_server_later();
    void follow_parent();
    void dial_parent();
    void dialled_parent(transport::Socket socket, const std::string& error);
    void lost_parent();
    Link* link_to(Worker to);
    void send_up(Message message);
    void go_on_sending_up();
    bool must_wait(const Link& link, const Sum& next);
    bool is_silent(const Link& link) const;
    bool needs_another_connection();
    void retire(std::unique_ptr<Link> link);
    std::uint64_t count(std::uint64_t (Link::*of_link)() const, std::uint64_t before) const;

    void received(Link& link, const nlohmann::json& note) override;
    void received(Link& link, Message message) override;
    void broke(Link& link, const std::string& why) override;
    ChunkShape shape_of(const Link& link, Chunk chunk) const override;
    Bounds bounds(const Link& link) const override;
    // Weights go to where they were pulled to, and are not needed any more.
    bool reads_lent(const Link&, const Message& message) const override {
        return std::holds_alternative<Weights>(message) && !node_.keeps_weights();
    }
    PriorityGate* gate() const override { return self_.gate; }
    void has_sent(Link&) override { go_on_sending_up(); }
    void drop(Link& link, const std::string& why);

    transport::SocketLoop& loop_;
    transport::Mailbox& mailbox_;
    const std::shared_ptr<Memory> memory_;
    const std::shared_ptr<const Layout> layout_;
    const std::uint32_t server_index_;
    const WorkerSelf& self_;
    const Handlers handlers_;
    ChunkArithmetic arithmetic_;
    Node node_;

    std::string at_;  // the server
    std::unique_ptr<Link> server_;
    std::unique_ptr<Dialling> server_dialling_;
    transport::Clock::time_point server_deadline_{};  // while there is no connection
    bool is_reserved_ = false, is_leaving_ = false;
    std::optional<Clock> flushes_;
    bool is_flushing_ = false;
    bool has_given_weights_ = false;  // on this connection
    Clock first_ = 0, kept_rounds_ = 0;
    std::vector<Worker> awaited_;
    Begun begun_;
    bool was_silent_ = false;  // the server, since this connection was last whole
    std::optional<transport::Clock::time_point> cut_off_since_;  // what is sent to it is not answered
    std::optional<Clock> joins_;                                 // the round that it has told the server
    std::optional<std::uint64_t> wanted_checkpoint_;
    std::chrono::milliseconds silence_;  // as the server says
    std::string trouble_;                // that the server has said

    std::map<Worker, std::string> places_;  // where workers are reached
    Worker parent_ = the_server;            // whom parent_link_ is for
    Epoch followed_;                        // the epoch in which it was looked at
    std::unique_ptr<Link> parent_link_;
    std::unique_ptr<Dialling> parent_dialling_;
    SendQueue for_parent_;  // until the connection is there, and the window is open
    SendWindow window_;
    std::optional<transport::SocketLoop::Timer> opens_;  // the window
    std::vector<Child> children_;
    std::list<std::unique_ptr<Link>> retired_;  // closed, to be destroyed when none of their functions runs
    std::uint64_t sent_before_ = 0, received_before_ = 0, reconnections_ = 0;
};

}  // namespace hocket::params
