// A worker's side of one server's shard: the protocol's Node (protocol/node.hpp) with its connections to the
// server, to its parent in the tree, and to its children.
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
#include "runtime/params/worker/options.hpp"
#include "runtime/params/worker/send_queue.hpp"
#include "runtime/params/worker/send_window.hpp"

namespace hocket::params {

// The state that all shards of a worker share.
struct WorkerSelf {
    const WorkerOptions& options;  // with a rack
    Worker number = 0;
    std::string at = {};
    std::string run = {};          // of this job: the same program's next job has another one
    Clock window = 2;              // how many rounds of updates it may keep until they are covered
    PriorityGate* gate = nullptr;  // through which all of the worker's connections are read

    bool has_weights() const { return !options.first_weights.empty(); }
    int priority() const { return static_cast<int>(options.job.priority); }
};

// Used only on the service's thread.
class Upstream final : private Link::Owner {
  public:
    struct Handlers {
        std::function<void()> reserved;  // called when first() is known
        // Called when awaited() is known, and the server reserves nothing yet.
        std::function<void()> postponed;
        std::function<void()> joined;  // called when the worker takes part
        std::function<void()> news;    // called when pulled(), covered() or epoch() may have changed
        // Called once, on a permanent failure.
        std::function<void(Status status, const std::string& why)> failed;
        std::function<Value(Chunk chunk)> first_weights;
        // Called with notes that are not about this shard.
        std::function<void(const nlohmann::json& note)> note;
    };
    Upstream(transport::SocketLoop& loop, transport::Mailbox& mailbox, std::shared_ptr<Memory> memory,
             std::shared_ptr<const Layout> layout, std::shared_ptr<const Calculator> calculator,
             std::uint32_t server, const WorkerSelf& self, Handlers handlers);

    // link: an existing connection to the server, or null.
    void start(std::string at, std::unique_ptr<Link> link);
    bool is_reserved() const { return is_reserved_ || has_joined(); }
    // The server's starting point, known once the worker is reserved.
    struct Begun {
        // False if the server continues from a checkpoint and no former member has come back.
        bool is_accepted = true;
        std::optional<Clock>
            round;  // it has all rounds below this, and nothing of later ones; empty: it is torn
        std::vector<Clock> whole_rounds;  // that have checkpoints on this server
    };
    const Begun& begun() const { return begun_; }
    // Former members that a replaced server expects back before it admits a new worker; empty: it waits for
    // none.
    const std::vector<Worker>& awaited() const { return awaited_; }
    // Reserves anew: the server may continue from another round by now.
    void reserve_again();
    // Joins at round `first`; called again if another server has reserved a later round meanwhile.
    void join(Clock first);
    // The answer carries this number; earlier requests are obsolete.
    void ask_for_checkpoint(std::uint64_t number);
    void server_has_moved(const std::string& at);
    // Called before the worker leaves: the server writes a checkpoint once it has applied all updates of
    // rounds below this.
    void flush(Clock clock);
    // Returns true while the server writes that checkpoint, or its replacement has yet to.
    bool is_flushing() const { return is_flushing_; }
    void leave();
    bool has_left() const { return !server_ || !server_->is_open(); }
    void tick(transport::Clock::time_point now);

    Node& node() { return node_; }
    void deliver();  // call after each call that changes the node
    Clock first() const { return first_; }
    // Returns how many additional rounds the server wants kept because they are in no checkpoint.
    Clock kept_rounds() const { return kept_rounds_; }
    bool has_joined() const { return node_.epoch().number > 0; }
    const std::string& at() const { return at_; }
    bool is_away() const { return !server_ || is_silent(*server_); }
    // Describes, for people, the trouble that the server reports; "": none.
    std::string trouble() const;
    // Takes a connection from a worker that says it is this one's child for this shard.
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
    // Returns true for Weights: they are copied to where they were pulled to, and not kept.
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

    std::string at_;  // the server's address
    std::unique_ptr<Link> server_;
    std::unique_ptr<Dialling> server_dialling_;
    transport::Clock::time_point server_deadline_{};  // set while there is no connection
    bool is_reserved_ = false, is_leaving_ = false;
    std::optional<Clock> flushes_;
    bool is_flushing_ = false;
    bool has_given_weights_ = false;  // on this connection
    Clock first_ = 0, kept_rounds_ = 0;
    std::vector<Worker> awaited_;
    Begun begun_;
    bool was_silent_ = false;  // the server was silent since this connection last worked
    // Since when the server's host has not acknowledged what was sent.
    std::optional<transport::Clock::time_point> cut_off_since_;
    std::optional<Clock> joins_;  // the round that it has told the server
    std::optional<std::uint64_t> wanted_checkpoint_;
    std::chrono::milliseconds silence_;  // the options', until the server specifies another time
    std::string trouble_;                // as reported by the server

    std::map<Worker, std::string> places_;  // the workers' addresses
    Worker parent_ = the_server;            // the worker that parent_link_ is for
    Epoch followed_;                        // the epoch in which the parent was last looked at
    std::unique_ptr<Link> parent_link_;
    std::unique_ptr<Dialling> parent_dialling_;
    SendQueue for_parent_;  // waits for the connection, and for the window to open
    SendWindow window_;
    std::optional<transport::SocketLoop::Timer> opens_;  // fires when the window opens
    std::vector<Child> children_;
    // Closed links, destroyed once none of their functions is running.
    std::list<std::unique_ptr<Link>> retired_;
    std::uint64_t sent_before_ = 0, received_before_ = 0, reconnections_ = 0;
};

}  // namespace hocket::params
