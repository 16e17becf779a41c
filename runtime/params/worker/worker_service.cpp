#include "runtime/params/worker/worker_service.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "runtime/base/thread.hpp"
#include "runtime/params/links/copy.hpp"
#include "runtime/params/service/gate_of.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds worker_tick_time = 50ms, worker_farewell_time = 2s;

}  // namespace

// ---- Beginning -------------------------------------------------------------------------------------------

WorkerService::WorkerService(WorkerOptions options)
    : options_(std::move(options)),
      deadline_(Time::now() + options_.timeout),
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
    listener_ = transport::listen_on(at, deadline_, "");
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

void WorkerService::wait_until_joined() {
    const bool has_come = requests_.wait_until_joined(deadline_);
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

void WorkerService::run(transport::Socket socket) {
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

void WorkerService::serve() {
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

void WorkerService::look_at_time() {
    const auto now = Time::now();
    next_look_ = now + worker_tick_time;
    for (const auto& upstream : upstreams_) upstream->tick(now);
    unknown_.remove_if([](const auto& link) { return !link->is_open(); });
    if (front_ && now - front_->spoke() > options_.silence / 4) front_->send_heartbeat();
    end_late_requests(now);
}

// A worker must not leave before its updates are covered: others may have them in sums that would become
// invalid, and, where servers write checkpoints, others may have pulled weights that the next server would
// lack.
bool WorkerService::has_nothing_on_its_way() const {
    return !requests_.is_working() ||
           std::all_of(upstreams_.begin(), upstreams_.end(), [&](const auto& upstream) {
               return std::max(upstream->node().covered(), first_) >= clock_;
           });
}

void WorkerService::flush() {
    if (!requests_.is_working()) return;
    for (const auto& upstream : upstreams_)
        if (upstream->kept_rounds() > 0) upstream->flush(clock_);
}

WorkerService::~WorkerService() {
    leave();
}

void WorkerService::leave() {
    if (!thread_.joinable()) return;
    is_leaving_ = true;
    mailbox_.post([] {});
    thread_.join();
}

// ---- Joining ---------------------------------------------------------------------------------------------

void WorkerService::received(Link& link, const Json& note) try {
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

void WorkerService::received(Link& link, Message) {
    drop(link, "it has not said who it is");
}

void WorkerService::drop(Link& link, const std::string& why) {
    link.close();
    broke(link, why);
}

void WorkerService::broke(Link& link, const std::string& why) {
    if (&link == front_.get())
        fail(Status::peer_lost,
             fmt::format("the connection with the parameter server {} broke before the job began: {}",
                         options_.server.text(), why));
}

void WorkerService::opened(const Json& note) {
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

void WorkerService::begin(Clock first) {
    for (const auto& upstream : upstreams_)
        self_.window =
            std::max(self_.window, most_kept(job_->staleness.value_or(0), upstream->kept_rounds()));
    clock_ = first_ = first;
    for (const auto& upstream : upstreams_) upstream->join(first);
}

void WorkerService::server_says(const Json& note) {
    if (note.at("say") == "checkpointed")
        return checkpoints_.answered(said_number(note.at("number"), UINT64_MAX),
                                     note.at("error").get<std::string>());
    if (note.at("say") != "servers") throw ProtocolError("it sent a note that servers do not send");
    std::vector<std::string> at;
    for (const Json& place : note.at("at")) at.push_back(place == "" ? "" : said_place(place));
    for (std::size_t i = 0; i < std::min(at.size(), upstreams_.size()); ++i)
        if (!at[i].empty()) upstreams_[i]->server_has_moved(at[i]);  // "": not connected yet
}

Value WorkerService::first_weights(Chunk chunk) {
    const Layout::Place& place = layout_->place(chunk);
    const std::uint64_t size = element_size(place.type);
    Content content{memory_->allocate(place.bytes()), place.bytes()};
    for (const Layout::Piece& piece : layout_->pieces_of_chunk(chunk))
        copy_bytes(content.block.get() + piece.at * size,
                   options_.first_weights[piece.tensor] + piece.first * size, piece.count * size);
    return value_of(std::move(content));
}

}  // namespace hocket::params
