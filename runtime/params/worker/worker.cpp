#include "runtime/params/worker/worker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/thread.hpp"
#include "runtime/params/links/copy.hpp"
#include "runtime/params/service/call.hpp"
#include "runtime/params/service/gate_of.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/params/worker/joining.hpp"
#include "runtime/params/worker/pulls.hpp"
#include "runtime/params/worker/requests.hpp"
#include "runtime/params/worker/staging.hpp"
#include "runtime/params/worker/upstream.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/mailbox.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Time = transport::Clock;
using transport::ProtocolError;

namespace {

constexpr std::chrono::milliseconds worker_tick_time = 50ms, worker_farewell_time = 2s;

std::string tensors_text(std::uint32_t first, std::size_t count) {
    return count == 1 ? fmt::format("tensor {}", first) : fmt::format("{} tensors from {} on", count, first);
}

std::string chunks_text(std::size_t count) {
    return count == 1 ? "1 chunk" : fmt::format("{} chunks", count);
}

}  // namespace

class Client::Service final : private Link::Owner {
  public:
    explicit Service(WorkerOptions options);
    ~Service();

    Worker number() const { return self_.number; }
    Clock clock() const { return clock_; }
    const Job& job() const { return *job_; }
    const Layout& layout() const { return *layout_; }

    ParameterRequest* push(std::uint32_t first, std::span<const std::byte* const> gradients);
    ParameterRequest* push(std::uint32_t tensor, const SparseUpdate& gradient);
    ParameterRequest* pull(std::uint32_t first, std::span<std::byte* const> weights, Clock staleness);
    ParameterRequest* pull_ahead(std::span<const Chunk> chunks, std::span<std::byte* const> weights,
                                 Clock staleness);
    std::vector<ParameterRequest*> pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                std::span<std::byte* const> weights, Clock staleness);
    ParameterRequest* checkpoint();
    Clock tick();
    std::optional<Time::time_point> wait(ParameterRequest* request, Time::time_point until);
    void give_up(ParameterRequest* request);
    void start_deadline(ParameterRequest* request) { requests_.start_deadline(*request); }
    WorkerStats stats();

  private:
    void run(transport::Socket front);
    void serve();
    void look_at_time();
    void end_late_requests(Time::time_point now);
    void wait_until_joined();
    void leave();
    bool has_nothing_on_its_way() const;
    void flush();

    void opened(const Json& note);
    void begin(Clock first);
    void server_says(const Json& note);
    Value first_weights(Chunk chunk);

    void full(Chunk chunk, Value gradient);
    Clock least_clock(Clock round, Clock staleness) const;
    std::shared_ptr<Wanted> ask(Wanted wanted, Clock least, const std::string& what);
    ParameterRequest* pull(Wanted wanted, Clock least, const std::string& what);
    bool in_thread(const std::function<void()>& call);
    void news(std::uint32_t server);
    void fail(Status status, const std::string& why);
    ParameterRequest* make_room_request(std::string text);
    void require_tensors(std::uint32_t first, std::size_t count) const;
    std::string likely_cause() const;  // why something may be late
    Clock covered() const;

    void received(Link& link, const Json& note) override;
    void received(Link& link, Message message) override;
    void broke(Link& link, const std::string& why) override;
    void drop(Link& link, const std::string& why);
    ChunkShape shape_of(const Link&, Chunk) const override {
        throw ProtocolError("it sent elements too early");
    }
    Bounds bounds(const Link&) const override { return {}; }
    PriorityGate* gate() const override { return gate_.get(); }

    WorkerOptions options_;
    const std::shared_ptr<const Job> job_;
    const std::shared_ptr<const Calculator> calculator_;
    const std::shared_ptr<Memory> memory_ = Memory::make();
    const std::unique_ptr<PriorityGate> gate_;
    WorkerSelf self_{options_};
    std::shared_ptr<const Layout> layout_;
    std::unique_ptr<Staging> staging_;
    std::atomic<Clock> clock_ = 0;
    std::atomic<Clock> covered_ = 0;  // the last result of covered()
    Clock first_ = 0;                 // the worker's first round

    transport::Socket listener_;
    transport::SocketLoop loop_{transport::SocketLoop::Way::epoll};
    transport::Mailbox mailbox_;
    std::unique_ptr<transport::Admission> admission_;
    std::unique_ptr<Link> front_;               // to the first server, until a shard takes it over
    std::list<std::unique_ptr<Link>> unknown_;  // from workers that have not said yet whose children they are
    std::vector<std::unique_ptr<Upstream>> upstreams_;  // by server
    Requests requests_{options_.timeout};
    CheckpointRequests checkpoints_{requests_, [this](std::uint64_t number) {
                                        for (const auto& upstream : upstreams_)
                                            upstream->ask_for_checkpoint(number);
                                    }};
    Joining joining_{loop_, requests_, upstreams_, [this](Clock first) { begin(first); },
                     [this](const std::string& why) { fail(Status::mismatch, why); }};
    Pulls pulls_{job_->staleness.has_value(), layout_, requests_, upstreams_};
    Time::time_point next_look_{}, looked_ = Time::now();

    std::atomic<bool> is_leaving_ = false;
    std::thread thread_;
};

// ---- The public interface --------------------------------------------------------------------------------

Client::Client(WorkerOptions options) : service_(std::make_unique<Service>(std::move(options))) {}
Client::~Client() = default;
Worker Client::number() const {
    return service_->number();
}
Clock Client::clock() const {
    return service_->clock();
}
const Job& Client::job() const {
    return service_->job();
}
const Layout& Client::layout() const {
    return service_->layout();
}
ParameterRequest* Client::push(std::uint32_t first, std::span<const std::byte* const> gradients) {
    return service_->push(first, gradients);
}
ParameterRequest* Client::push(std::uint32_t tensor, const SparseUpdate& gradient) {
    return service_->push(tensor, gradient);
}
ParameterRequest* Client::pull(std::uint32_t first, std::span<std::byte* const> weights, Clock staleness) {
    return service_->pull(first, weights, staleness);
}
ParameterRequest* Client::pull_ahead(std::span<const Chunk> chunks, std::span<std::byte* const> weights,
                                     Clock staleness) {
    return service_->pull_ahead(chunks, weights, staleness);
}
std::vector<ParameterRequest*> Client::pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                    std::span<std::byte* const> weights, Clock staleness) {
    return service_->pull_in_turn(batches, weights, staleness);
}
ParameterRequest* Client::checkpoint() {
    return service_->checkpoint();
}
Clock Client::tick() {
    return service_->tick();
}
std::optional<Time::time_point> Client::wait(ParameterRequest* request, Time::time_point until) {
    return service_->wait(request, until);
}
void Client::start_deadline(ParameterRequest* request) {
    service_->start_deadline(request);
}
void Client::give_up(ParameterRequest* request) {
    service_->give_up(request);
}
WorkerStats Client::stats() const {
    return service_->stats();
}

// ---- Beginning -------------------------------------------------------------------------------------------

Client::Service::Service(WorkerOptions options)
    : options_(std::move(options)),
      job_(std::make_shared<const Job>(options_.job)),
      calculator_(options_.make_calculator(*job_)),
      gate_(gate_of(*job_)) {
    check(*job_);
    self_.gate = gate_.get();
    // The server may start later than its workers, or be in the middle of a replacement.
    transport::Socket front =
        call_server(options_.server, options_.secret, self_.priority(), options_.timeout, options_.timeout);
    // Other workers can probably reach this one at the address from which it reaches the server.
    transport::Endpoint at = transport::bound_to(front).value();
    at.port = 0;
    listener_ = transport::listen_on(at, Time::now() + options_.timeout, "");
    self_.at = transport::bound_to(listener_).value().text();
    if (options_.rack.empty()) options_.rack = at.host;
    loop_.watch(mailbox_.fd(), EPOLLIN, mailbox_);
    transport::AdmissionTerms terms;
    terms.host = "a worker of the parameter service";
    terms.is_quiet = true;  // children come and go with each epoch
    terms.secret = options_.secret;
    terms.wrong_secret = wrong_secret;
    terms.refuse = [](const transport::Hello& hello) { return refusal(hello.identity); };
    terms.admit = [this](transport::Admitted admitted) {
        Link::Owner& self = *this;
        unknown_.push_back(
            std::make_unique<Link>(loop_, std::move(admitted.socket), memory_, self, Link::Side::host));
    };
    admission_ = std::make_unique<transport::Admission>(loop_, listener_.fd(), std::move(terms));
    auto shared = std::make_shared<transport::Socket>(std::move(front));
    thread_ = start_thread("hkt-params", [this, shared] { run(std::move(*shared)); });
    try {
        wait_until_joined();
    } catch (...) {
        leave();
        throw;
    }
}

void Client::Service::wait_until_joined() {
    const bool has_come = requests_.wait_until_joined(Time::now() + options_.timeout);
    if (has_come) return;
    const std::string within = transport::seconds_text(options_.timeout);
    if (const std::string why = requests_.why_postponed(); !why.empty())
        throw Error(Status::timeout,
                    fmt::format("the parameter service at {} has not taken this worker in within {}: {}",
                                options_.server.text(), within, why));
    throw Error(Status::timeout,
                fmt::format("the parameter service at {} has not begun within {}: it waits for all of its "
                            "servers, and for {} worker{}; hocket-params status shows who is missing",
                            options_.server.text(), within, job_->workers, job_->workers == 1 ? "" : "s"));
}

void Client::Service::run(transport::Socket socket) {
    mailbox_.attend();
    try {
        Link::Owner& self = *this;
        front_ = std::make_unique<Link>(loop_, std::move(socket), memory_, self);
        Json note{{"say", "open"}, {"job", encode(*job_)}, {"has_weights", self_.has_weights()}};
        if (options_.number) note["number"] = *options_.number;
        front_->send(note);
        serve();
    } catch (const Error& error) {
        fail(error.status(), error.what());
    } catch (const std::exception& error) {
        fail(Status::internal, error.what());
    }
    admission_.reset();
    upstreams_.clear();
    unknown_.clear();
    front_.reset();
    while (!is_leaving_ || !mailbox_.close()) {
        mailbox_.empty();
        if (!is_leaving_ && mailbox_.is_empty()) mailbox_.wait();
    }
}

void Client::Service::serve() {
    Time::time_point last = Time::time_point::max(), patience = last;
    const auto has_said_goodbye = [&] {
        return std::all_of(upstreams_.begin(), upstreams_.end(),
                           [](const auto& up) { return up->has_left(); });
    };
    for (;;) {
        if (is_leaving_ && patience == Time::time_point::max()) {
            patience = Time::now() + worker_farewell_time;
            flush();
        }
        const auto is_flushing = [](const auto& upstream) { return upstream->is_flushing(); };
        const auto more = std::any_of(upstreams_.begin(), upstreams_.end(), is_flushing)
                              ? options_.timeout
                              : std::chrono::milliseconds(0);
        const bool may_leave = is_leaving_ && (has_nothing_on_its_way() || Time::now() > patience + more);
        if (may_leave && last == Time::time_point::max()) {
            last = Time::now() + worker_farewell_time;
            for (const auto& upstream : upstreams_) upstream->leave();
        }
        if (may_leave && (has_said_goodbye() || Time::now() > last)) return;
        mailbox_.empty();
        if (Time::now() >= next_look_) look_at_time();
        loop_.turn(mailbox_.is_empty() ? next_look_ : Time::time_point::min());
    }
}

// A worker must not leave before its updates are covered: others may have them in sums that would become
// invalid, and, where servers write checkpoints, others may have pulled weights that the next server would
// lack.
bool Client::Service::has_nothing_on_its_way() const {
    return !requests_.is_working() ||
           std::all_of(upstreams_.begin(), upstreams_.end(), [&](const auto& upstream) {
               return std::max(upstream->node().covered(), first_) >= clock_;
           });
}

void Client::Service::flush() {
    if (!requests_.is_working()) return;
    for (const auto& upstream : upstreams_)
        if (upstream->kept_rounds() > 0) upstream->flush(clock_);
}

Client::Service::~Service() {
    leave();
}

void Client::Service::leave() {
    if (!thread_.joinable()) return;
    is_leaving_ = true;
    mailbox_.post([] {});
    thread_.join();
}

// ---- Joining ---------------------------------------------------------------------------------------------

void Client::Service::received(Link& link, const Json& note) try {
    const auto say = note.at("say").get<std::string>();
    if (&link == front_.get()) {
        if (say == "opened") return opened(note);
        if (say == "refused")
            return fail(Status::mismatch, "the parameter service refuses this worker: " +
                                              transport::printable(note.at("why").get<std::string>()));
    }
    if (say != "child") throw ProtocolError("it sent a note that workers do not send");
    const std::uint32_t server = said_server(note.at("server"));
    const Worker number = said_worker(note.at("number"));
    const bool is_meant = said_worker(note.at("parent")) == self_.number;
    const auto found =
        std::find_if(unknown_.begin(), unknown_.end(), [&](const auto& one) { return one.get() == &link; });
    if (!is_meant || server >= upstreams_.size() || found == unknown_.end() ||
        !upstreams_[server]->may_adopt(number))
        throw ProtocolError("it treats this worker as another one");
    std::unique_ptr<Link> child = std::move(*found);
    unknown_.erase(found);
    upstreams_[server]->adopt(number, std::move(child));
} catch (const Json::exception&) {
    drop(link, "it sent a note that cannot be read");
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

void Client::Service::received(Link& link, Message) {
    drop(link, "it has not said who it is");
}

void Client::Service::drop(Link& link, const std::string& why) {
    link.close();
    broke(link, why);
}

void Client::Service::broke(Link& link, const std::string& why) {
    if (&link == front_.get())
        fail(Status::peer_lost,
             fmt::format("the connection with the parameter server {} broke before the job began: {}",
                         options_.server.text(), why));
}

void Client::Service::opened(const Json& note) {
    const Worker number = said_worker(note.at("number"));
    std::vector<std::string> servers;
    for (const Json& at : note.at("servers")) servers.push_back(said_place(at));
    if (servers.empty() || servers.size() > Layout(*job_, 1).chunks())
        throw ProtocolError("it named an impossible number of servers");
    self_.run = said_name(note.at("run"));
    self_.number = number;
    layout_ = std::make_shared<const Layout>(*job_, static_cast<std::uint32_t>(servers.size()));
    staging_ = std::make_unique<Staging>(
        job_, layout_, memory_, [this](Chunk chunk, Value gradient) { full(chunk, std::move(gradient)); });
    for (std::uint32_t server = 0; server < servers.size(); ++server) {
        Upstream::Handlers handlers;
        handlers.reserved = [this] { joining_.reserved(); };
        handlers.postponed = [this] { joining_.postponed(); };
        handlers.joined = [this] { joining_.joined(); };
        handlers.news = [this, server] { news(server); };
        handlers.failed = [this](Status status, const std::string& why) { fail(status, why); };
        handlers.first_weights = [this](Chunk chunk) { return first_weights(chunk); };
        handlers.note = [this](const Json& note) { server_says(note); };
        upstreams_.push_back(std::make_unique<Upstream>(loop_, mailbox_, memory_, layout_, calculator_,
                                                        server, self_, std::move(handlers)));
    }
    for (std::uint32_t server = 0; server < servers.size(); ++server)
        upstreams_[server]->start(servers[server], server == 0 ? std::move(front_) : nullptr);
}

void Client::Service::begin(Clock first) {
    for (const auto& upstream : upstreams_)
        self_.window =
            std::max(self_.window, most_kept(job_->staleness.value_or(0), upstream->kept_rounds()));
    clock_ = first_ = first;
    for (const auto& upstream : upstreams_) upstream->join(first);
}

void Client::Service::server_says(const Json& note) {
    if (note.at("say") == "checkpointed")
        return checkpoints_.answered(said_number(note.at("number"), UINT64_MAX),
                                     note.at("error").get<std::string>());
    if (note.at("say") != "servers") throw ProtocolError("it sent a note that servers do not send");
    std::vector<std::string> at;
    for (const Json& place : note.at("at")) at.push_back(place == "" ? "" : said_place(place));
    for (std::size_t i = 0; i < std::min(at.size(), upstreams_.size()); ++i)
        if (!at[i].empty()) upstreams_[i]->server_has_moved(at[i]);  // "": not connected yet
}

Value Client::Service::first_weights(Chunk chunk) {
    const Layout::Place& place = layout_->place(chunk);
    const std::uint64_t size = element_size(place.type);
    Content content{memory_->allocate(place.bytes()), place.bytes()};
    for (const Layout::Piece& piece : layout_->pieces_of_chunk(chunk))
        copy_bytes(content.block.get() + piece.at * size,
                   options_.first_weights[piece.tensor] + piece.first * size, piece.count * size);
    return value_of(std::move(content));
}

// ---- Pushing ---------------------------------------------------------------------------------------------

ParameterRequest* Client::Service::push(std::uint32_t first, std::span<const std::byte* const> gradients) {
    require_tensors(first, gradients.size());
    staging_->add(first, gradients);
    return make_room_request(
        fmt::format("room for updates of {} has not come", tensors_text(first, gradients.size())));
}

ParameterRequest* Client::Service::push(std::uint32_t tensor, const SparseUpdate& gradient) {
    require_tensors(tensor, 1);
    staging_->add_sparse(tensor, gradient.indices, gradient.values);
    return make_room_request(fmt::format("room for an update of tensor {} has not come", tensor));
}

void Client::Service::full(Chunk chunk, Value gradient) {
    mailbox_.post([this, chunk, round = clock_.load(), gradient = std::move(gradient)] {
        if (upstreams_.empty()) return;
        const std::uint32_t server = layout_->server_of(chunk);
        upstreams_[server]->node().push(chunk - layout_->first_of(server), round, gradient);
        upstreams_[server]->deliver();
    });
}

// Waits for room for the round's updates, which a caller that has not waited for its pushes would otherwise
// skip: a server has room for a limited number of rounds.
Clock Client::Service::tick() {
    requests_.require_alive();
    requests_.wait(
        make_room_request(fmt::format("room for the updates of round {} has not come", clock_.load())),
        Time::time_point::max());
    staging_->finish();
    return ++clock_;
}

// The worker has no updates of rounds before its first one, and servers may not report those as covered for
// long.
Clock Client::Service::covered() const {
    Clock lowest = UINT64_MAX;
    for (const auto& upstream : upstreams_) lowest = std::min(lowest, upstream->node().covered());
    return std::max(lowest, first_);
}

// ---- Pulling ---------------------------------------------------------------------------------------------

ParameterRequest* Client::Service::pull(std::uint32_t first, std::span<std::byte* const> weights,
                                        Clock staleness) {
    require_tensors(first, weights.size());
    return pull(wanted_of_tensors(*layout_, first, weights), least_clock(clock_, staleness),
                tensors_text(first, weights.size()));
}

ParameterRequest* Client::Service::pull_ahead(std::span<const Chunk> chunks,
                                              std::span<std::byte* const> weights, Clock staleness) {
    requests_.require_alive();
    ParameterRequest* const request = pull(wanted_of_chunks(*layout_, chunks, weights),
                                           least_clock(clock_ + 1, staleness), chunks_text(chunks.size()));
    requests_.hold_deadline(*request);
    return request;
}

std::vector<ParameterRequest*> Client::Service::pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                             std::span<std::byte* const> weights,
                                                             Clock staleness) {
    requests_.require_alive();
    std::vector<std::shared_ptr<Wanted>> turns;
    std::vector<ParameterRequest*> requests;
    for (const std::vector<Chunk>& chunks : batches) {
        turns.push_back(ask(wanted_of_chunks(*layout_, chunks, weights), least_clock(clock_, staleness),
                            chunks_text(chunks.size())));
        requests.push_back(turns.back()->begin()->second.request);
    }
    mailbox_.post([this, turns] { pulls_.take_in_turn(turns); });
    return requests;
}

// Returns the lowest clock of weights that a worker in this round accepts.
Clock Client::Service::least_clock(Clock round, Clock staleness) const {
    if (job_->staleness && staleness > *job_->staleness)
        throw Error(Status::invalid_argument,
                    fmt::format("a pull with staleness {}, where the service was opened for {} at most",
                                staleness, *job_->staleness));
    return job_->staleness && round > staleness ? round - staleness : 0;
}

// Makes the request for weights of this clock or later ones.
std::shared_ptr<Wanted> Client::Service::ask(Wanted wanted, Clock least, const std::string& what) {
    ParameterRequest* const request =
        requests_.make(fmt::format("weights of round {} or later of {} have not come", least, what));
    for (auto& [chunk, waiting] : wanted) {
        waiting.request = request;
        waiting.clock = least;
    }
    request->left = wanted.size();
    return std::make_shared<Wanted>(std::move(wanted));
}

ParameterRequest* Client::Service::pull(Wanted wanted, Clock least, const std::string& what) {
    const auto asked = ask(std::move(wanted), least, what);
    ParameterRequest* const request = asked->begin()->second.request;
    mailbox_.post([this, asked] { pulls_.take(asked); });
    return request;
}

void Client::Service::news(std::uint32_t server) {
    for (const Node::Pulled& pulled : upstreams_[server]->node().pulled())
        pulls_.hand_out(layout_->first_of(server) + pulled.chunk, pulled);
    pulls_.take_turns();
    const Clock now_covered = covered();
    covered_ = now_covered;
    requests_.are_covered(now_covered);
}

// ---- Checkpoints -----------------------------------------------------------------------------------------

ParameterRequest* Client::Service::checkpoint() {
    requests_.require_alive();
    ParameterRequest* const request = requests_.make("not all servers have written checkpoints");
    mailbox_.post([this, request] {
        if (requests_.is_open(request)) checkpoints_.add(request, upstreams_.size());
    });
    return request;
}

// ---- Requests --------------------------------------------------------------------------------------------

void Client::Service::require_tensors(std::uint32_t first, std::size_t count) const {
    requests_.require_alive();
    if (first > job_->tensors.size() || count > job_->tensors.size() - first || count == 0)
        throw Error(Status::invalid_argument,
                    fmt::format("{} tensors from {} on: the job has {}, numbered from 0", count, first,
                                job_->tensors.size()));
}

// Limits how far a worker may be ahead of what servers have covered, because it keeps its updates until then.
ParameterRequest* Client::Service::make_room_request(std::string text) {
    ParameterRequest* const request = requests_.make(std::move(text));
    const Clock window = self_.window, round = clock_;
    if (round < std::max(first_, covered_.load()) + window) {
        requests_.end(*request);
        return request;
    }
    requests_.end_when_covered(*request, round - window + 1);
    mailbox_.post([this] {
        if (!upstreams_.empty()) news(0);
    });
    return request;
}

std::optional<Time::time_point> Client::Service::wait(ParameterRequest* request, Time::time_point until) {
    return requests_.wait(request, until);
}

// The service's thread, which may be writing to the request's memory, forgets the request first; only then
// may the memory be freed.
void Client::Service::give_up(ParameterRequest* request) {
    const auto end = [&] {
        if (!requests_.is_open(request)) return;
        pulls_.forget(request);
        requests_.end(*request, Status::aborted, "it was given up");
        mailbox_.post([this] { pulls_.take_turns(); });
    };
    if (!in_thread(end)) end();  // the thread has ended
    try {
        requests_.wait(request, Time::time_point::max());
    } catch (const Error&) {
        // this failure, or the one that made it fail before
    }
}

// Leaves all servers, which must not wait for a worker that has failed.
void Client::Service::fail(Status status, const std::string& why) {
    pulls_.clear();
    checkpoints_.clear();
    for (const auto& upstream : upstreams_) upstream->leave();
    requests_.fail(status, why);
}

// Time in which a server is away does not count: that has its own deadline, after which everything fails.
void Client::Service::end_late_requests(Time::time_point now) {
    const auto since = now - std::exchange(looked_, now);
    const bool is_a_server_away = std::any_of(upstreams_.begin(), upstreams_.end(),
                                              [](const auto& upstream) { return upstream->is_away(); });
    for (ParameterRequest* const request :
         requests_.late(now, is_a_server_away ? since : Time::duration::zero())) {
        checkpoints_.give_up(request);
        pulls_.forget(request);
        requests_.end(*request, Status::timeout,
                      fmt::format("{} within {}: {}", request->text,
                                  transport::seconds_text(options_.timeout), likely_cause()));
    }
    pulls_.take_turns();
}

void Client::Service::look_at_time() {
    const auto now = Time::now();
    next_look_ = now + worker_tick_time;
    for (const auto& upstream : upstreams_) upstream->tick(now);
    unknown_.remove_if([](const auto& link) { return !link->is_open(); });
    if (front_ && now - front_->spoke() > options_.silence / 4) front_->send_heartbeat();
    end_late_requests(now);
}

std::string Client::Service::likely_cause() const {
    std::string cause;
    for (const auto& upstream : upstreams_)
        if (const std::string trouble = upstream->trouble(); !trouble.empty())
            cause += (cause.empty() ? "" : ", and ") + trouble;
    return cause.empty()
               ? "another worker has not pushed its update of a round that must be in them, or is slow; the "
                 "status of the service shows how many rounds each has pushed"
               : cause;
}

// Runs the call on the service's thread and waits for it. Returns false if the thread has ended.
bool Client::Service::in_thread(const std::function<void()>& call) {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    const bool is_posted = mailbox_.post([&] {
        call();
        const std::lock_guard lock(mutex);
        is_done = true;
        changed.notify_all();
    });
    if (!is_posted) return false;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_done; });
    return true;
}

WorkerStats Client::Service::stats() {
    WorkerStats stats{};
    stats.clock = clock_;
    in_thread([&] {
        for (const auto& upstream : upstreams_) {
            stats.bytes_sent += upstream->bytes_sent();
            stats.bytes_received += upstream->bytes_received();
            for (const auto& [place, update] : upstream->node().kept())
                if (update) stats.kept_bytes += content_of(update)->bytes;
            stats.epochs = std::max<std::uint64_t>(stats.epochs, upstream->node().epoch().number);
            stats.reconnections += upstream->reconnections();
            stats.children += upstream->children();
        }
    });
    return stats;
}

}  // namespace hocket::params
