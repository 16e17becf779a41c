#include "runtime/params/server/server.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"
#include "runtime/base/thread.hpp"
#include "runtime/params/links/dialling.hpp"
#include "runtime/params/server/checkpoints.hpp"
#include "runtime/params/server/front.hpp"
#include "runtime/params/service/gate_of.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/mailbox.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Time = transport::Clock;
using transport::ProtocolError;

constexpr std::chrono::milliseconds tick_time = 50ms, dial_time = 2s, pause_between_dials = 200ms,
                                    farewell_time = 500ms, least_silence = 4 * tick_time;
constexpr int most_early = 4;  // notes of one worker kept before the shard begins

void check(const ShardTerms& terms) {
    if (terms.silence < least_silence)
        throw Error(Status::invalid_argument,
                    fmt::format("silence_ms is {}; workers speak so often that it can be {} or more",
                                terms.silence.count(), least_silence.count()));
    if (terms.return_for < terms.silence)
        throw Error(Status::invalid_argument,
                    fmt::format("return_ms is {}, which is less than silence_ms, {}: a worker must be silent "
                                "before others can go on without it",
                                terms.return_for.count(), terms.silence.count()));
}

}  // namespace

class Server::Service final : private Link::Owner {
  public:
    explicit Service(ServerOptions options);
    ~Service();

    transport::Endpoint endpoint() const { return endpoint_; }
    bool wait(Time::time_point until);
    void finish();
    void checkpoint() {
        mailbox_.post([this] { write_checkpoint(); });
    }
    std::string stats();

  private:
    void leave();
    void run();
    void serve();
    void remove_closed_links();
    void tick();
    void look_at_first(Time::time_point now);
    void done();
    Json state() const;
    std::string waits_for() const;
    std::string own_name() const;  // for logs
    void end(std::exception_ptr failure);
    void say_that_it_leaves();
    void admit(transport::Admitted admitted);
    void dial_first();
    void dial_first_later();
    void dialled_first(Dialling::Result result);
    void begin(const Front::Beginning& beginning);
    void restore();
    void have_shard(ShardName name, std::optional<Clock> clock);
    void write_checkpoint();
    void write_last_checkpoint();

    void received(Link& link, const Json& note) override;
    void received(Link& link, Message message) override;
    void broke(Link& link, const std::string& why) override;
    ChunkShape shape_of(const Link& link, Chunk chunk) const override;
    Bounds bounds(const Link& link) const override;
    PriorityGate* gate() const override { return gate_.get(); }
    void take(Link& link, const Json& note);
    void take_checkpoint(Worker worker, std::uint64_t number);
    void take_from_first(const Json& note);
    void drop(Link& link, const std::string& why);
    void forget(Link& link, const std::string& why);

    ServerOptions options_;
    transport::Socket listener_;
    transport::Endpoint endpoint_;
    transport::SocketLoop loop_{transport::SocketLoop::Way::epoll};
    transport::Mailbox mailbox_;
    const std::shared_ptr<Memory> memory_ = Memory::make();
    std::unique_ptr<transport::Admission> admission_;
    std::list<Link> links_;                      // to workers and, at the first server, to other servers
    std::vector<std::pair<Link*, Json>> early_;  // notes for a shard that has not begun
    std::unique_ptr<Front> front_;               // set at the first server
    std::optional<Link> first_;                  // at other servers: the connection to the first server
    std::unique_ptr<Dialling> dialling_;
    Time::time_point first_deadline_;
    std::string first_trouble_;           // why the first server cannot be reached now
    bool first_has_left_ = false;         // the first server has announced that it leaves
    std::optional<std::uint32_t> index_;  // empty until the first server has assigned it
    bool is_unused_ = false;
    // Set at the first server; with the incarnation.
    std::optional<std::pair<ShardName, std::uint32_t>> restored_;
    std::unique_ptr<PriorityGate> gate_;  // set once there is a job
    std::unique_ptr<Shard> shard_;
    std::string run_;                            // the shard's run of the job
    const std::string process_ = random_hex(8);  // identifies this process to the first server
    std::unique_ptr<Checkpoints> checkpoints_;
    std::string trouble_;  // the trouble last reported to workers
    std::string last_checkpoint_trouble_;
    Time::time_point next_tick_{};

    std::atomic<bool> is_leaving_ = false;
    std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    bool is_done_ = false, has_ended_ = false;
    std::exception_ptr failure_;
    std::thread thread_;
};

// ---- Beginning and end -----------------------------------------------------------------------------------

Server::Server(ServerOptions options) : service_(std::make_unique<Service>(std::move(options))) {}
Server::~Server() = default;

transport::Endpoint Server::endpoint() const {
    return service_->endpoint();
}
bool Server::wait(Time::time_point until) {
    return service_->wait(until);
}
void Server::finish() {
    service_->finish();
}
void Server::checkpoint() {
    service_->checkpoint();
}
std::string Server::stats() const {
    return service_->stats();
}

Server::Service::Service(ServerOptions options)
    : options_(std::move(options)),
      listener_(transport::listen_on(options_.listen, Time::now() + options_.timeout,
                                     "choose another address or port (--listen)")),
      endpoint_(transport::bound_to(listener_).value()),
      first_deadline_(Time::now() + options_.timeout) {
    if (options_.secret.empty())
        throw Error(
            Status::invalid_argument,
            "a parameter service needs a secret: set HOCKET_SECRET to the same text in all of its processes");
    check(options_.terms);
    if (!options_.checkpoints.folder.empty())
        require_folder(options_.checkpoints.folder, !options_.checkpoints.restore);
    if (endpoint_.is_any_address()) endpoint_.host = transport::own_address();
    if (options_.rack.empty()) options_.rack = endpoint_.host;
    options_.checkpoints.every = std::max<std::uint64_t>(options_.checkpoints.every, 1);
    if (options_.checkpoints.restore) restore();
    if (!options_.join) {
        index_ = 0;
        front_ = std::make_unique<Front>(
            options_.servers, Front::Own{endpoint_.text(), options_.rack, options_.checkpoints.every},
            options_.make_calculator, [this](const Front::Beginning& beginning) { begin(beginning); });
    }
    if (restored_) front_->restore(restored_->first.job, restored_->first.run, restored_->second);
    if (front_) {
        front_->tell_workers = [this](const Json& note) {
            if (shard_) shard_->tell_all(note);
        };
        front_->tell_own_shard = [this](const std::vector<std::string>& racks) {
            if (shard_) shard_->know_racks(racks);
        };
    }
    loop_.watch(mailbox_.fd(), EPOLLIN, mailbox_);
    transport::AdmissionTerms terms;
    terms.host = "the parameter service";
    terms.secret = options_.secret;
    terms.wrong_secret = wrong_secret;
    terms.admit = [this](transport::Admitted admitted) { admit(std::move(admitted)); };
    terms.refuse = [](const transport::Hello& hello) { return refusal(hello.identity); };
    admission_ = std::make_unique<transport::Admission>(loop_, listener_.fd(), std::move(terms));
    thread_ = start_thread("hkt-params", [this] { run(); });
}

Server::Service::~Service() {
    leave();
}

void Server::Service::leave() {
    if (!thread_.joinable()) return;
    is_leaving_ = true;
    mailbox_.post([] {});
    thread_.join();
}

void Server::Service::finish() {
    leave();
    if (failure_) std::rethrow_exception(failure_);
    if (!last_checkpoint_trouble_.empty())
        throw Error(Status::io, fmt::format("{} has written no last checkpoint: {}", own_name(),
                                            last_checkpoint_trouble_));
}

void Server::Service::run() {
    mailbox_.attend();
    std::exception_ptr failure;
    try {
        if (options_.join) dial_first();
        serve();
    } catch (...) {
        failure = std::current_exception();
    }
    end(failure);
}

void Server::Service::serve() {
    while (!is_leaving_) {
        mailbox_.empty();
        const auto now = Time::now();
        if (now >= next_tick_) tick();
        loop_.turn(mailbox_.is_empty() ? next_tick_ : Time::time_point::min());
        remove_closed_links();
    }
}

// Links that this server has closed itself have not been reported as broken.
void Server::Service::remove_closed_links() {
    for (auto link = links_.begin(); link != links_.end();) {
        if (link->is_open()) {
            ++link;
            continue;
        }
        forget(*link, "this server has ended it");
        link = links_.erase(link);
    }
}

void Server::Service::end(std::exception_ptr failure) {
    dialling_.reset();
    admission_.reset();
    listener_.close();
    try {
        if (!failure) say_that_it_leaves();
        if (!failure) write_last_checkpoint();  // last: say_that_it_leaves() still serves workers
    } catch (...) {
        failure = std::current_exception();
    }
    checkpoints_.reset();
    shard_.reset();
    front_.reset();
    links_.clear();
    first_.reset();
    {
        const std::lock_guard lock(mutex_);
        has_ended_ = true;
        failure_ = failure;
    }
    changed_.notify_all();
    while (!is_leaving_ || !mailbox_.close()) {
        mailbox_.empty();
        if (!is_leaving_ && mailbox_.is_empty()) mailbox_.wait();
    }
}

// Tells the other servers, which would otherwise report the end of the connection as an error.
void Server::Service::say_that_it_leaves() {
    if (first_) {
        first_->send(Json{{"say", "leaving"}});
        first_->close_when_sent();
    }
    if (front_) front_->leave();
    const auto until = Time::now() + farewell_time;
    const auto has_left = [&] { return (!first_ || !first_->is_open()) && (!front_ || front_->has_left()); };
    while (!has_left() && Time::now() < until) loop_.turn(until);
}

bool Server::Service::wait(Time::time_point until) {
    std::unique_lock lock(mutex_);
    const bool has_come = changed_.wait_until(lock, until, [&] { return is_done_ || has_ended_; });
    if (failure_) std::rethrow_exception(failure_);
    return has_come;
}

std::string Server::Service::stats() {
    auto text = std::make_shared<std::string>();
    std::mutex mutex;
    std::condition_variable answered;
    bool is_answered = false;
    const bool is_posted = mailbox_.post([&] {
        const Json stats = state();
        const std::lock_guard lock(mutex);
        *text = stats.dump();
        is_answered = true;
        answered.notify_all();
    });
    if (!is_posted) return "{}";
    std::unique_lock lock(mutex);
    answered.wait(lock, [&] { return is_answered; });
    return *text;
}

Json Server::Service::state() const {
    Json state = shard_ ? shard_->stats() : Json{{"server", index_ ? Json(*index_) : Json()}};
    state["at"] = endpoint_.text();
    if (!trouble_.empty()) state["checkpoint_trouble"] = trouble_;
    if (is_unused_)
        state["unused"] = "the model is so small that this server has no part of it";
    else if (const std::string what = waits_for(); !shard_ || !what.empty())
        state["waits_for"] = what;
    const auto places = front_ ? front_->places() : std::nullopt;
    if (places) state["servers"] = *places;
    return state;
}

std::string Server::Service::waits_for() const {
    std::string what = shard_ ? shard_->waits_for() : "";
    if (front_ && what.empty()) what = front_->missing();
    if (front_ || shard_ || !options_.join) return what;
    const std::string first = fmt::format("the first server ({})", options_.join->text());
    if (first_ && first_->is_open()) return first + " has not begun it; its status says why";
    return first_trouble_.empty() ? first + " has not answered yet"
                                  : "there is no way to " + first + ": " + first_trouble_;
}

std::string Server::Service::own_name() const {
    return index_ ? fmt::format("server {}", *index_) : "a server without a number";
}

void Server::Service::tick() {
    const auto now = Time::now();
    next_tick_ = now + tick_time;
    for (Link& link : links_) link.tick(now);
    for (Link& link : links_)
        if (!link.user && !link.has_unsent() && now - link.spoke() > options_.terms.silence / 4)
            link.send_heartbeat();
    if (first_ && first_->is_open()) look_at_first(now);
    if (!shard_) return;
    shard_->tick(now);
    for (Snapshot& cut : shard_->take_cuts())
        if (checkpoints_) checkpoints_->write_whole(std::move(cut));
    if (checkpoints_ && shard_->has_begun() &&
        checkpoints_->is_due(shard_->clock(), shard_->wants_checkpoint()))
        write_checkpoint();
    if (shard_->is_done()) done();
}

// Checks that the first server answers: if its host is gone, the connection does not end.
void Server::Service::look_at_first(Time::time_point now) {
    first_->tick(now);
    if (now - first_->heard() > options_.terms.silence) return drop(*first_, "it does not answer");
    if (now - first_->spoke() > options_.terms.silence / 4) first_->send_heartbeat();
}

void Server::Service::done() {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
}

// ---- The other servers' side of the first server ---------------------------------------------------------

void Server::Service::dial_first() {
    const transport::Dial dial{
        .to = *options_.join, .secret = options_.secret, .identity = identity(0), .gone_for = dial_time};
    dialling_ = std::make_unique<Dialling>(
        mailbox_, dial, dial_time, [this](Dialling::Result result) { dialled_first(std::move(result)); });
}

// Dials later, because a function of the link to the first server, which this destroys, must not do it.
void Server::Service::dial_first_later() {
    loop_.at(Time::now() + pause_between_dials, [this] {
        first_.reset();
        if (!is_leaving_) dial_first();
    });
}

// A server that has a shard serves it without the first server, and waits for that one's successor.
void Server::Service::dialled_first(Dialling::Result result) {
    dialling_.reset();
    if (!result.error.empty()) {
        if (!shard_ && !is_done_ && (result.is_refused || Time::now() > first_deadline_))
            throw Error(Status::bootstrap, "there is no way to the first server: " + result.error);
        if (first_trouble_.empty() && !first_has_left_)
            log_line("hocket params: {}: there is no way to the first server; it tries again: {}", own_name(),
                     result.error);
        first_trouble_ = result.error;
        return dial_first_later();
    }
    first_trouble_.clear();
    first_has_left_ = false;
    Link::Owner& self = *this;
    first_.emplace(loop_, std::move(result.socket), memory_, self);
    Json note{{"say", "serve"},
              {"at", endpoint_.text()},
              {"rack", options_.rack},
              {"process", process_},
              {"is_restored", shard_ != nullptr}};
    if (shard_) {
        note["index"] = *index_;
        note["run"] = run_;
        note["incarnation"] = shard_->incarnation();
    }
    first_->send(note);
}

void Server::Service::take_from_first(const Json& note) {
    const auto say = note.at("say").get<std::string>();
    if (say == "refused")
        throw Error(Status::mismatch, "the first server refuses this one: " +
                                          transport::printable(note.at("why").get<std::string>()));
    if (say == "serving" && !shard_) index_ = said_server(note.at("index"));
    if (say == "serving" && shard_) shard_->be_found();
    if (say == "leaving") first_has_left_ = true;
    if (say == "racks" && shard_) {
        std::vector<std::string> racks;
        for (const Json& rack : note.at("racks")) racks.push_back(said_name(rack));
        shard_->know_racks(racks);
    }
    if (say == "unused") {
        is_unused_ = true;
        return done();
    }
    if (say != "begin" || shard_ || !index_) return;
    Front::Beginning beginning{decode_job(note.at("job").get<std::string>()),
                               0,
                               {},
                               note.at("has_weights").get<bool>(),
                               said_name(note.at("run")),
                               said_number(note.at("every"), UINT32_MAX)};
    if (beginning.every == 0) throw ProtocolError("it asked for a checkpoint every 0 rounds");
    beginning.servers = static_cast<std::uint32_t>(said_number(note.at("servers"), most_servers));
    const auto all_servers = static_cast<std::uint32_t>(said_number(note.at("all_servers"), most_servers));
    if (*index_ >= beginning.servers || beginning.servers > all_servers ||
        beginning.servers > Layout(beginning.job, 1).chunks())
        throw ProtocolError("it began a job with an impossible number of servers");
    for (const Json& founder : note.at("founders")) beginning.founders.push_back(said_worker(founder));
    options_.servers = all_servers;
    begin(beginning);
}

void Server::Service::begin(const Front::Beginning& beginning) {
    have_shard({beginning.job, *index_, beginning.servers, options_.servers, beginning.run, beginning.every},
               std::nullopt);
    shard_->begin(beginning.founders, beginning.has_weights);
    for (auto& [link, note] : std::exchange(early_, {}))
        if (link->is_open()) received(*link, note);
}

void Server::Service::have_shard(ShardName name, std::optional<Clock> clock) {
    const auto job = std::make_shared<const Job>(name.job);
    const auto layout = std::make_shared<const Layout>(*job, name.servers);
    shard_ =
        std::make_unique<Shard>(job, layout, *index_, memory_, options_.make_calculator(*job), options_.terms,
                                name.every, !options_.checkpoints.folder.empty(), options_.rack);
    gate_ = gate_of(*job);
    run_ = name.run;
    if (options_.checkpoints.folder.empty()) return;
    checkpoints_ = std::make_unique<Checkpoints>(
        options_.checkpoints.folder, std::move(name), clock, mailbox_,
        [this](const Snapshot& snapshot, const std::string& error) {
            const std::string trouble = error.empty() ? "" : "there is no new checkpoint: " + error;
            if (trouble != std::exchange(trouble_, trouble))
                shard_->tell_all(Json{{"say", "trouble"}, {"why", trouble}});
            shard_->know_whole_rounds(checkpoints_->whole_rounds());
            if (error.empty()) return shard_->keep_what_lacks(snapshot);
            log_line("hocket params: {}: has no new checkpoint: {}", own_name(), error);
        });
}

// Runs in the constructor, so that the constructor throws what is wrong.
void Server::Service::restore() {
    RestoredShard restored = restore_shard(options_.checkpoints, *memory_, options_.make_calculator);
    index_ = restored.name.index;
    options_.servers = restored.name.all_servers;
    if ((index_ == 0) == options_.join.has_value())
        throw Error(
            Status::invalid_argument,
            index_ == 0
                ? "this is the checkpoint of the first server; it takes that one's address, and joins none"
                : fmt::format("this is the checkpoint of server {}; it needs the address of the first one",
                              *index_));
    const auto clock = *std::min_element(restored.snapshot.clocks.begin(), restored.snapshot.clocks.end());
    have_shard(restored.name, clock);
    if (index_ == 0) restored_ = std::make_pair(restored.name, restored.snapshot.incarnation);
    shard_->restore(std::move(restored.snapshot));
    if (options_.join) shard_->hide();  // the first server tells workers this server's address
    shard_->know_whole_rounds(checkpoints_->whole_rounds());
    // With unbounded staleness there are no whole rounds that could differ.
    if (options_.checkpoints.accepts_torn || !restored.name.job.staleness) shard_->accept_as_it_is();
}

void Server::Service::write_checkpoint() {
    if (!checkpoints_ || !shard_->has_begun()) return;
    shard_->tell_who_waits_for_checkpoint();
    checkpoints_->write(shard_->snapshot());
}

// A stopped server may be started again later, with all of its rounds.
void Server::Service::write_last_checkpoint() try {
    if (checkpoints_ && shard_->has_begun()) checkpoints_->finish(shard_->snapshot());
} catch (const Error& error) {
    last_checkpoint_trouble_ = error.what();
    log_line("hocket params: {}: has written no last checkpoint: {}", own_name(), error.what());
}

// ---- Workers ---------------------------------------------------------------------------------------------

void Server::Service::admit(transport::Admitted admitted) {
    Link::Owner& self = *this;
    links_.emplace_back(loop_, std::move(admitted.socket), memory_, self, Link::Side::host);
}

void Server::Service::received(Link& link, const Json& note) try {
    first_&&& link == &*first_ ? take_from_first(note) : take(link, note);
} catch (const Json::exception&) {
    drop(link, "it sent a note that cannot be read");
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

void Server::Service::take(Link& link, const Json& note) {
    const auto say = note.at("say").get<std::string>();
    if (say == "stats") {
        Json answer = state();
        answer["say"] = "stats";
        link.send(answer);
        return link.close_when_sent();
    }
    if (say == "leaving" && front_) return front_->take_leaving(link);
    if (say == "open" || say == "serve") {
        if (!front_) throw ProtocolError("it treats this server as the first one");
        return say == "open" ? front_->take_open(link, note) : front_->take_serve(link, note);
    }
    // After a job's servers are gone, its worker must not be taken for a worker of another job with the same
    // number.
    const bool is_of_a_run = say == "resume" || (say == "reserve" && shard_);
    if (is_of_a_run && (!shard_ || note.at("run").get<std::string>() != run_)) {
        link.send(Json{{"say", "refused"}, {"why", begun_anew}});
        return link.close_when_sent();
    }
    if (!shard_) {
        const auto is_its = [&](const auto& early) { return early.first == &link; };
        if (std::count_if(early_.begin(), early_.end(), is_its) >= most_early)
            throw ProtocolError("it sent too many messages before the job had begun");
        early_.emplace_back(&link, note);
        return;
    }
    if (say == "checkpoint")
        return take_checkpoint(shard_->worker_of(link), said_number(note.at("number"), UINT64_MAX));
    shard_->take(link, note);
    // Servers may have moved while the worker had no connection.
    if (front_ && (say == "reserve" || say == "resume")) front_->tell_places(link);
}

void Server::Service::take_checkpoint(Worker worker, std::uint64_t number) {
    const auto answer = [this, worker, number](const std::string& error) {
        shard_->tell(worker, Json{{"say", "checkpointed"}, {"number", number}, {"error", error}});
    };
    if (!shard_->has_begun()) throw ProtocolError("it asked for a checkpoint before the job had begun");
    if (!checkpoints_)
        return answer(fmt::format("{} ({}) was started without a folder for checkpoints", own_name(),
                                  endpoint_.text()));
    checkpoints_->write(shard_->snapshot(), [this, answer](const std::string& error) {
        answer(error.empty() ? "" : fmt::format("{} ({}): {}", own_name(), endpoint_.text(), error));
    });
}

void Server::Service::received(Link& link, Message message) try {
    if (!shard_) throw ProtocolError("it pushed or pulled before the job had begun");
    shard_->take(link, message);
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

void Server::Service::drop(Link& link, const std::string& why) {
    log_line("hocket params: {}: ends a connection: {}", own_name(), why);
    link.close();
    broke(link, why);
}

void Server::Service::broke(Link& link, const std::string& why) {
    if (first_ && &link == &*first_) {
        first_deadline_ = Time::now() + options_.timeout;
        if (is_unused_) return;
        if (!is_done_ && !first_has_left_)
            log_line("hocket params: {}: the connection with the first server broke: {}", own_name(), why);
        return dial_first_later();
    }
    forget(link, why);
}

void Server::Service::forget(Link& link, const std::string& why) {
    std::erase_if(early_, [&](const auto& early) { return early.first == &link; });
    if (front_) front_->lost(link);
    if (shard_) shard_->lost(link, why);
}

ChunkShape Server::Service::shape_of(const Link&, Chunk chunk) const {
    if (!shard_) throw ProtocolError("it sent elements before the job had begun");
    return shard_->shape_of(chunk);
}

Bounds Server::Service::bounds(const Link&) const {
    return shard_ ? shard_->bounds() : Bounds{};
}

}  // namespace hocket::params
