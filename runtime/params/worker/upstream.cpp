#include "runtime/params/worker/upstream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Time = transport::Clock;
using transport::ProtocolError;

constexpr std::chrono::milliseconds server_dial_time = 1s, parent_dial_time = 2s, upstream_dial_pause = 50ms;

}  // namespace

Upstream::Upstream(transport::SocketLoop& loop, transport::Mailbox& mailbox, std::shared_ptr<Memory> memory,
                   std::shared_ptr<const Layout> layout, std::shared_ptr<const Calculator> calculator,
                   std::uint32_t server, const WorkerSelf& self, Handlers handlers)
    : loop_(loop),
      mailbox_(mailbox),
      memory_(memory),
      layout_(std::move(layout)),
      server_index_(server),
      self_(self),
      handlers_(std::move(handlers)),
      arithmetic_(layout_, server, std::move(memory), std::move(calculator)),
      node_(self.number, layout_->chunks_of(server), arithmetic_, self.options.job.staleness),
      silence_(self.options.silence) {}

// ---- The server ------------------------------------------------------------------------------------------

void Upstream::start(std::string at, std::unique_ptr<Link> link) {
    at_ = std::move(at);
    server_deadline_ = Time::now() + self_.options.timeout;
    link ? connect_to_server(std::move(link)) : dial_server();
}

void Upstream::dial_server() {
    const transport::Dial dial{.to = transport::Endpoint::parse(at_).value(),
                               .secret = self_.options.secret,
                               .identity = identity(self_.priority())};
    server_dialling_ = std::make_unique<Dialling>(
        mailbox_, dial, server_dial_time,
        [this](Dialling::Result result) { dialled_server(std::move(result.socket), result.error); });
}

void Upstream::dialled_server(transport::Socket socket, const std::string& error) {
    server_dialling_.reset();
    // Keeps the old connection if it works again, or if no new one could be made.
    if (server_ && (!error.empty() || !needs_another_connection())) return;
    if (error.empty()) {
        Link::Owner& self = *this;
        if (server_) retire(std::move(server_));
        return connect_to_server(std::make_unique<Link>(loop_, std::move(socket), memory_, self));
    }
    // Perhaps the server has another address by then.
    if (Time::now() < server_deadline_) return dial_server_later();
    handlers_.failed(
        Status::peer_lost,
        fmt::format("server {} ({}) has been gone for {}, and no other process has taken its place: {}",
                    server_index_, at_, transport::seconds_text(self_.options.timeout), error));
}

void Upstream::dial_server_later() {
    loop_.at(Time::now() + upstream_dial_pause, [this] {
        if (!server_ && !server_dialling_ && !is_leaving_) dial_server();
    });
}

void Upstream::connect_to_server(std::unique_ptr<Link> link) {
    server_ = std::move(link);
    server_->hand_to(*this);
    was_silent_ = false;
    cut_off_since_.reset();
    if (parent_ == the_server) for_parent_.clear();  // they are of an epoch that ends now
    has_given_weights_ = false;
    greet();
}

void Upstream::greet() {
    // All servers know the secret, so the note says which one is meant.
    Json note{{"number", self_.number},
              {"at", self_.at},
              {"rack", self_.options.rack},
              {"run", self_.run},
              {"server", server_index_}};
    if (!has_joined()) {
        note["say"] = "reserve";
        note["has_weights"] = self_.has_weights();
        is_reserved_ = false;
    } else {
        note["say"] = "resume";
        note["incarnation"] = node_.epoch().incarnation;
        note["covered"] = node_.covered();
        const Recollection recollection = node_.recollect();
        note["members"] = Json::array();
        for (const Expected& member : recollection.members)
            note["members"].push_back({member.worker, member.first});
        note["departed"] = Json::array();
        for (const Departed& departed : recollection.departed)
            note["departed"].push_back({departed.worker, departed.first, departed.end});
        note["seen"] = recollection.seen;
        note["pushed"] = recollection.pushed;
    }
    server_->send(note);
    const auto is_self = [&](const Member& member) { return member.worker == self_.number; };
    const auto self = std::find_if(node_.members().begin(), node_.members().end(), is_self);
    // The server had not received it.
    if (self != node_.members().end() && joins_ != self->first) join(*joins_);
    if (wanted_checkpoint_) ask_for_checkpoint(*wanted_checkpoint_);
    if (flushes_) flush(*flushes_);
}

void Upstream::reserve_again() {
    if (server_ && !has_joined()) greet();
}

void Upstream::flush(Clock clock) {
    flushes_ = clock;
    if (server_) server_->send(Json{{"say", "flush"}, {"clock", clock}});
}

void Upstream::join(Clock first) {
    joins_ = first;
    if (server_) server_->send(Json{{"say", "join"}, {"first", first}});
}

// A server that is away is asked when it is back.
void Upstream::ask_for_checkpoint(std::uint64_t number) {
    wanted_checkpoint_ = number;
    if (server_) server_->send(Json{{"say", "checkpoint"}, {"number", number}});
}

void Upstream::server_has_moved(const std::string& at) {
    if (at == std::exchange(at_, at) || is_leaving_) return;
    if (server_ && server_->is_open()) lost_server("another process has taken its place");
}

void Upstream::lost_server(const std::string& why) {
    if (is_leaving_) return;
    log_line("hocket-params: worker {}: the connection with server {} ({}) broke: {}", self_.number,
             server_index_, at_, why);
    ++reconnections_;
    is_reserved_ = false;
    awaited_.clear();
    handlers_.postponed();
    // Others may have pulled weights that the next server lacks, so this worker waits until that server has
    // its updates.
    is_flushing_ |= flushes_ && kept_rounds_ > 0;
    if (server_) retire(std::move(server_));
    server_deadline_ = Time::now() + self_.options.timeout;
    dial_server_later();
}

void Upstream::leave() {
    is_leaving_ = true;
    server_dialling_.reset();
    parent_dialling_.reset();
    if (parent_link_) parent_link_->close();
    if (!server_) return;
    go_on_sending_up();
    server_->send(Json{{"say", "goodbye"}});
    server_->close_when_sent();
}

void Upstream::take_note(const Json& note) {
    const auto say = note.at("say").get<std::string>();
    if (say == "reserved") {
        const Clock first = said_clock(note.at("first"));
        kept_rounds_ = said_clock(note.at("kept_rounds"));
        begun_ = {note.at("is_accepted").get<bool>(), {}, {}};
        if (!note.at("round").is_null()) begun_.round = said_clock(note.at("round"));
        for (const Json& round : note.at("whole_rounds")) begun_.whole_rounds.push_back(said_clock(round));
        first_ = std::max(first_, first);
        awaited_.clear();
        if (!std::exchange(is_reserved_, true)) handlers_.reserved();
    } else if (say == "postponed") {
        awaited_.clear();
        for (const Json& worker : note.at("expected")) awaited_.push_back(said_worker(worker));
        handlers_.postponed();
    } else if (say == "give_weights")
        give_weights();
    else if (say == "places") {
        places_.clear();
        for (const Json& place : note.at("at")) places_[said_worker(place.at(0))] = said_name(place.at(1));
    } else if (say == "terms")
        silence_ = std::chrono::milliseconds(said_number(note.at("silence_ms"), UINT32_MAX));
    else if (say == "flushing")
        is_flushing_ = true;
    else if (say == "lost")
        log_line("hocket-params: worker {}: server {} ({}) says: {}", self_.number, server_index_, at_,
                 transport::printable(note.at("what").get<std::string>()));
    else if (say == "trouble")
        note.at("why").get_to(trouble_);
    else if (say == "checkpointed") {
        // If asked once more, a server may answer twice.
        if (wanted_checkpoint_ != said_number(note.at("number"), UINT64_MAX)) return;
        wanted_checkpoint_.reset();
        handlers_.note(note);
    } else if (say == "refused")
        handlers_.failed(Status::peer_lost,
                         fmt::format("server {} ({}) refuses this worker: {}", server_index_, at_,
                                     transport::printable(note.at("why").get<std::string>())));
    else
        handlers_.note(note);
}

// The worker's own first weights are read until it takes part.
void Upstream::give_weights() {
    if (!self_.has_weights() || has_joined() || std::exchange(has_given_weights_, true))
        throw ProtocolError("it asked for first weights that this worker does not have, or no longer has");
    for (Chunk chunk = 0; chunk < layout_->chunks_of(server_index_); ++chunk)
        server_->send(
            Weights{{}, chunk, 0, handlers_.first_weights(layout_->first_of(server_index_) + chunk)});
}

// ---- The tree --------------------------------------------------------------------------------------------

void Upstream::deliver() {
    for (Letter& letter : node_.letters()) {
        if (letter.to == node_.parent())
            send_up(std::move(letter.message));
        else if (Link* const link = link_to(letter.to))
            link->send(letter.message);
    }
    handlers_.news();
}

// Puts wants before waiting sums, so that weights arrive sooner. But a want of clock 0 is answered at once,
// and with unbounded staleness the answer must include the update that was sent before it.
void Upstream::send_up(Message message) {
    follow_parent();
    Link* const link = link_to(parent_);
    if (!link && parent_ == the_server) return;  // the server sends everything again when it is back
    const auto* const want = std::get_if<Want>(&message);
    if (link && want && want->clock > 0) {
        window_.asked(*want);
        return link->send(message);
    }
    for_parent_.add(std::move(message));
    go_on_sending_up();
}

void Upstream::go_on_sending_up() {
    Link* const link = link_to(parent_);
    if (!link) return;
    for (; !for_parent_.is_empty(); for_parent_.drop_first()) {
        const Message& message = for_parent_.first();
        if (const auto* const sum = std::get_if<Sum>(&message)) {
            if (must_wait(*link, *sum)) return;
            window_.sent(*sum);
        } else if (const auto* const want = std::get_if<Want>(&message))
            window_.asked(*want);
        link->send(message);
    }
}

// Returns true if the sum must wait: once it is in the link, no later message can overtake it. Processes of
// one host share no wire, so there nothing waits.
bool Upstream::must_wait(const Link& link, const Sum& next) {
    if (link.lends() || is_leaving_) return false;
    if (link.has_unsent()) return true;
    const auto until = window_.closed_until(next, Time::now());
    if (!until) return false;
    if (opens_) loop_.cancel(*opens_);
    opens_ = loop_.at(*until, [this] {
        opens_.reset();
        go_on_sending_up();
    });
    return true;
}

Link* Upstream::link_to(Worker to) {
    if (to == the_server) return server_.get();
    if (to == parent_) return parent_link_.get();
    for (const Child& child : children_)
        if (child.worker == to) return child.link.get();
    return nullptr;
}

// Without a connection, the parent gets another chance in each epoch.
void Upstream::follow_parent() {
    const bool is_another = std::exchange(parent_, node_.parent()) != node_.parent();
    if (is_another) {
        parent_dialling_.reset();
        if (parent_link_) retire(std::move(parent_link_));
    }
    const bool is_news = std::exchange(followed_, node_.epoch()) != node_.epoch();
    if (is_news) {
        for_parent_.clear();  // sums of older epochs
        window_.begin(node_.members(), self_.number, layout_->chunks_of(server_index_));
    }
    if (parent_ != the_server && is_news && !parent_link_ && !parent_dialling_) dial_parent();
}

void Upstream::dial_parent() {
    const auto place = places_.find(parent_);
    const auto at = place == places_.end() ? std::nullopt : transport::Endpoint::parse(place->second);
    if (!at) return lost_parent();
    const transport::Dial dial{
        .to = *at, .secret = self_.options.secret, .identity = identity(self_.priority()), .gone_for = 200ms};
    parent_dialling_ = std::make_unique<Dialling>(
        mailbox_, dial, parent_dial_time,
        [this](Dialling::Result result) { dialled_parent(std::move(result.socket), result.error); });
}

void Upstream::dialled_parent(transport::Socket socket, const std::string& error) {
    parent_dialling_.reset();
    if (!error.empty()) return lost_parent();
    Link::Owner& self = *this;
    parent_link_ = std::make_unique<Link>(loop_, std::move(socket), memory_, self);
    parent_link_->send(
        Json{{"say", "child"}, {"number", self_.number}, {"server", server_index_}, {"parent", parent_}});
    go_on_sending_up();
}

// Asks the server for another parent. Until the server answers, this parent is not dialled again.
void Upstream::lost_parent() {
    for_parent_.clear();
    if (parent_link_) retire(std::move(parent_link_));
    node_.parent_lost();
    loop_.at(Time::now(), [this] { deliver(); });  // later, because deliver() may be on the call stack
}

void Upstream::adopt(Worker child, std::unique_ptr<Link> link) {
    for (Child& known : children_)
        if (known.worker == child) retire(std::move(known.link));
    std::erase_if(children_, [](const Child& known) { return !known.link; });
    node_.child_lost(child);
    link->hand_to(*this);
    children_.push_back({child, std::move(link)});
}

// May be called from the link's own functions, so the link is destroyed later.
void Upstream::retire(std::unique_ptr<Link> link) {
    sent_before_ += link->bytes_sent();
    received_before_ += link->bytes_received();
    link->close();
    retired_.push_back(std::move(link));
}

std::uint64_t Upstream::bytes_sent() const {
    return count(&Link::bytes_sent, sent_before_);
}

std::uint64_t Upstream::bytes_received() const {
    return count(&Link::bytes_received, received_before_);
}

std::uint64_t Upstream::count(std::uint64_t (Link::*of_link)() const, std::uint64_t before) const {
    std::uint64_t all = before;
    if (server_) all += ((*server_).*of_link)();
    if (parent_link_) all += ((*parent_link_).*of_link)();
    for (const Child& child : children_) all += ((*child.link).*of_link)();
    return all;
}

void Upstream::tick(Time::time_point now) {
    retired_.clear();
    const auto tick = [&](Link* link) {
        if (link) link->tick(now);
    };
    tick(server_.get());
    tick(parent_link_.get());
    for (const Child& child : children_) tick(child.link.get());
    if (is_leaving_) return;
    const auto speak = [&](Link* link) {
        if (link && link->is_open() && !link->has_unsent() && now - link->spoke() > silence_ / 4)
            link->send_heartbeat();
    };
    speak(server_.get());
    speak(parent_link_.get());
    for (const Child& child : children_) speak(child.link.get());
    if (parent_link_ && is_silent(*parent_link_)) lost_parent();
    if (!server_ || !needs_another_connection()) return;
    if (now - server_->heard() > self_.options.timeout)
        return handlers_.failed(Status::peer_lost,
                                fmt::format("server {} ({}) has not answered for {}", server_index_, at_,
                                            transport::seconds_text(self_.options.timeout)));
    if (!server_dialling_) dial_server();
}

// Returns true if the server should be dialled again. The old connection may not end although the server's
// host is gone and another process listens in its place. After an outage, the server may be reachable long
// before TCP sends its data again. And a connection may pass data in one direction only: if a link fails
// intermittently, the server's retransmissions may arrive while this worker's do not.
bool Upstream::needs_another_connection() {
    const auto now = Time::now();
    const bool is_cut_off = server_->is_cut_off();
    if (!is_cut_off) cut_off_since_.reset();
    if (is_cut_off && !cut_off_since_) cut_off_since_ = now;
    const bool is_unheard = cut_off_since_ && now - *cut_off_since_ > silence_;
    was_silent_ = is_silent(*server_) || is_unheard || (was_silent_ && is_cut_off);
    return was_silent_;
}

bool Upstream::is_silent(const Link& link) const {
    return link.is_open() && Time::now() - link.heard() > silence_;
}

std::string Upstream::trouble() const {
    return trouble_.empty() ? "" : fmt::format("server {} ({}) says: {}", server_index_, at_, trouble_);
}

// ---- Calls from links ------------------------------------------------------------------------------------

void Upstream::received(Link& link, const Json& note) try {
    if (&link != server_.get()) throw ProtocolError("it sent a server's note, but it is not a server");
    take_note(note);
} catch (const Json::exception&) {
    drop(link, "it sent a note that cannot be read");
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

void Upstream::received(Link& link, Message message) try {
    Worker from = the_server;
    if (&link == parent_link_.get())
        from = parent_;
    else if (&link != server_.get()) {
        const auto child = std::find_if(children_.begin(), children_.end(),
                                        [&](const Child& one) { return one.link.get() == &link; });
        if (child == children_.end()) return;
        from = child->worker;
    }
    require_possible(link, from, message);
    const bool was_member = has_joined();
    if (const auto* const weights = std::get_if<Weights>(&message)) window_.came(*weights, Time::now());
    node_.receive(from, message);
    if (has_joined()) follow_parent();
    if (!was_member && has_joined()) handlers_.joined();
    deliver();
    go_on_sending_up();
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

// Checks a message as a server does: messages from below wait here and take memory.
void Upstream::require_possible(const Link& link, Worker from, const Message& message) const {
    const bool is_childs = std::holds_alternative<Sum>(message) || std::holds_alternative<Want>(message);
    const bool is_child = &link != server_.get() && &link != parent_link_.get();
    if (is_childs != is_child)
        throw ProtocolError("it sent a message that its place in the tree does not allow");
    if (!is_child) return;
    const auto* const sum = std::get_if<Sum>(&message);
    const Clock clock = sum ? sum->clock : std::get<Want>(message).clock;
    if (has_joined() && clock > node_.next_round() + most_rounds())
        throw ProtocolError("it pushed or pulled for a round that it cannot have reached yet");
    if (node_.early(from) > 2 * layout_->chunks_of(server_index_) * (most_rounds() + 1))
        throw ProtocolError("it sent too many messages for an epoch that was not announced");
}

// Returns how many rounds another worker can be ahead of this one. That worker also begins no further from a
// server's rounds than it may go.
std::size_t Upstream::most_rounds() const {
    return 2 * self_.window + self_.options.job.staleness.value_or(0) + 2;
}

void Upstream::broke(Link& link, const std::string& why) {
    if (&link == server_.get()) return lost_server(why);
    if (&link == parent_link_.get()) return lost_parent();
    for (Child& child : children_) {
        if (child.link.get() != &link) continue;
        node_.child_lost(child.worker);
        retire(std::move(child.link));
    }
    std::erase_if(children_, [](const Child& child) { return !child.link; });
}

void Upstream::drop(Link& link, const std::string& why) {
    link.close();
    broke(link, why);
}

ChunkShape Upstream::shape_of(const Link&, Chunk chunk) const {
    if (chunk >= layout_->chunks_of(server_index_))
        throw ProtocolError("it named a chunk that does not exist");
    return arithmetic_.shape(chunk);
}

Bounds Upstream::bounds(const Link&) const {
    return {1 << 16, layout_->chunks_of(server_index_)};
}

}  // namespace hocket::params
