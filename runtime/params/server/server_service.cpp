#include "runtime/params/server/server_service.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <future>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/thread.hpp"
#include "runtime/params/service/gate_of.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/own_address.hpp"

namespace hocket::params {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds tick_time = 50ms, farewell_time = 500ms, least_silence = 4 * tick_time;

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

// For others, where the server listens at all addresses of its host.
std::string address_to_tell(const std::string& listen, Time::time_point deadline) {
    const std::string named = transport::address_for_others(listen, deadline);
    return named.empty() ? transport::own_address() : named;
}

}  // namespace

// ---- Beginning and end -----------------------------------------------------------------------------------

ServerService::ServerService(ServerOptions options)
    : options_(std::move(options)),
      listener_(transport::listen_for_others(options_.listen, Time::now() + options_.timeout,
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
    if (endpoint_.is_any_address()) endpoint_.host = address_to_tell(options_.listen.host, first_deadline_);
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

ServerService::~ServerService() {
    leave();
}

void ServerService::leave() {
    if (!thread_.joinable()) return;
    is_leaving_ = true;
    mailbox_.post([] {});
    thread_.join();
}

void ServerService::finish() {
    leave();
    if (failure_) std::rethrow_exception(failure_);
    if (!last_checkpoint_trouble_.empty())
        throw Error(Status::io, fmt::format("{} has written no last checkpoint: {}", own_name(),
                                            last_checkpoint_trouble_));
}

void ServerService::run() {
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

void ServerService::serve() {
    while (!is_leaving_) {
        mailbox_.empty();
        const auto now = Time::now();
        if (now >= next_tick_) tick();
        loop_.turn(mailbox_.is_empty() ? next_tick_ : Time::time_point::min());
        remove_closed_links();
    }
}

// Links that this server has closed itself have not been reported as broken.
void ServerService::remove_closed_links() {
    for (auto link = links_.begin(); link != links_.end();) {
        if (link->is_open()) {
            ++link;
            continue;
        }
        forget(*link, "this server has ended it");
        link = links_.erase(link);
    }
}

void ServerService::end(std::exception_ptr failure) {
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
void ServerService::say_that_it_leaves() {
    if (first_) {
        first_->send(Json{{"say", "leaving"}});
        first_->close_when_sent();
    }
    if (front_) front_->leave();
    const auto until = Time::now() + farewell_time;
    const auto has_left = [&] { return (!first_ || !first_->is_open()) && (!front_ || front_->has_left()); };
    while (!has_left() && Time::now() < until) loop_.turn(until);
}

bool ServerService::wait(Time::time_point until) {
    std::unique_lock lock(mutex_);
    const bool has_come = changed_.wait_until(lock, until, [&] { return is_done_ || has_ended_; });
    if (failure_) std::rethrow_exception(failure_);
    return has_come;
}

std::string ServerService::stats() {
    const auto answer = std::make_shared<std::promise<std::string>>();
    const bool is_posted = mailbox_.post([this, answer] {
        // An error is the caller's: the server goes on, and the caller must not wait for ever.
        try {
            // The name of a folder, for example, need not be UTF-8.
            answer->set_value(state().dump(-1, ' ', false, Json::error_handler_t::replace));
        } catch (...) {
            answer->set_exception(std::current_exception());
        }
    });
    return is_posted ? answer->get_future().get() : "{}";
}

Json ServerService::state() const {
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

std::string ServerService::waits_for() const {
    std::string what = shard_ ? shard_->waits_for() : "";
    if (front_ && what.empty()) what = front_->missing();
    if (front_ || shard_ || !options_.join) return what;
    const std::string first = fmt::format("the first server ({})", options_.join->text());
    if (first_ && first_->is_open()) return first + " has not begun it; its status says why";
    return first_trouble_.empty() ? first + " has not answered yet"
                                  : "there is no way to " + first + ": " + first_trouble_;
}

std::string ServerService::own_name() const {
    return index_ ? fmt::format("server {}", *index_) : "a server without a number";
}

void ServerService::tick() {
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

void ServerService::done() {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
}

// ---- The shard, and its checkpoints ----------------------------------------------------------------------

void ServerService::begin(const Front::Beginning& beginning) {
    have_shard({beginning.job, *index_, beginning.servers, options_.servers, beginning.run, beginning.every},
               std::nullopt);
    shard_->begin(beginning.founders, beginning.givers);
    for (auto& [link, note] : std::exchange(early_, {}))
        if (link->is_open()) received(*link, note);
}

void ServerService::have_shard(ShardName name, std::optional<Clock> clock) {
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
        [this](const Snapshot& snapshot, const std::string& error, bool is_whole) {
            (is_whole ? trouble_of_whole_ : trouble_of_moment_) = error;
            const std::string& latest = trouble_of_moment_.empty() ? trouble_of_whole_ : trouble_of_moment_;
            const std::string trouble = latest.empty() ? "" : "there is no new checkpoint: " + latest;
            if (trouble != std::exchange(trouble_, trouble))
                shard_->tell_all(Json{{"say", "trouble"}, {"why", trouble}});
            shard_->know_whole_rounds(checkpoints_->whole_rounds());
            if (error.empty()) return shard_->keep_what_lacks(snapshot);
            log_line("hocket-params: {}: has no new checkpoint: {}", own_name(), error);
        });
}

// Runs in the constructor, so that the constructor throws what is wrong.
void ServerService::restore() {
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

void ServerService::write_checkpoint() {
    if (!checkpoints_ || !shard_->has_begun()) return;
    shard_->tell_who_waits_for_checkpoint();
    checkpoints_->write(shard_->snapshot());
}

// A stopped server may be started again later, with all of its rounds.
void ServerService::write_last_checkpoint() try {
    if (checkpoints_ && shard_->has_begun()) checkpoints_->finish(shard_->snapshot());
} catch (const Error& error) {
    last_checkpoint_trouble_ = error.what();
    log_line("hocket-params: {}: has written no last checkpoint: {}", own_name(), error.what());
}

}  // namespace hocket::params
