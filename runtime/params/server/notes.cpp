// What a server says to the first one, and what it hears from that one and from workers.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/params/server/server_service.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds dial_time = 2s, pause_between_dials = 200ms;
constexpr int most_early = 4;  // notes of one worker kept before the shard begins

}  // namespace

// ---- The other servers' side of the first server ---------------------------------------------------------

// Checks that the first server answers: if its host is gone, the connection does not end.
void ServerService::look_at_first(Time::time_point now) {
    first_->tick(now);
    if (now - first_->heard() > options_.terms.silence) return drop(*first_, "it does not answer");
    if (now - first_->spoke() > options_.terms.silence / 4) first_->send_heartbeat();
}

void ServerService::dial_first() {
    const transport::Dial dial{
        .to = *options_.join, .secret = options_.secret, .identity = identity(0), .gone_for = dial_time};
    dialling_ = std::make_unique<Dialling>(
        mailbox_, dial, dial_time, [this](Dialling::Result result) { dialled_first(std::move(result)); });
}

// Dials later, because a function of the link to the first server, which this destroys, must not do it.
void ServerService::dial_first_later() {
    loop_.at(Time::now() + pause_between_dials, [this] {
        first_.reset();
        if (!is_leaving_) dial_first();
    });
}

// A server that has a shard serves it without the first server, and waits for that one's successor.
void ServerService::dialled_first(Dialling::Result result) {
    dialling_.reset();
    if (!result.error.empty()) {
        if (!shard_ && !is_done_ && (result.is_refused || Time::now() > first_deadline_))
            throw Error(Status::bootstrap, "there is no way to the first server: " + result.error);
        if (first_trouble_.empty() && !first_has_left_)
            log_line("hocket-params: {}: there is no way to the first server; it tries again: {}", own_name(),
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

void ServerService::take_from_first(const Json& note) {
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
    Front::Beginning beginning{
        decode_job(note.at("job").get<std::string>()), 0, {}, {}, said_name(note.at("run")),
        said_number(note.at("every"), UINT32_MAX)};
    if (beginning.every == 0) throw ProtocolError("it asked for a checkpoint every 0 rounds");
    beginning.servers = static_cast<std::uint32_t>(said_number(note.at("servers"), most_servers));
    const auto all_servers = static_cast<std::uint32_t>(said_number(note.at("all_servers"), most_servers));
    if (*index_ >= beginning.servers || beginning.servers > all_servers ||
        beginning.servers > Layout(beginning.job, 1).chunks())
        throw ProtocolError("it began a job with an impossible number of servers");
    for (const Json& founder : note.at("founders")) beginning.founders.push_back(said_worker(founder));
    for (const Json& giver : note.at("givers")) beginning.givers.push_back(said_worker(giver));
    const auto is_founder = [&](Worker giver) {
        return std::count(beginning.founders.begin(), beginning.founders.end(), giver) > 0;
    };
    if (!std::all_of(beginning.givers.begin(), beginning.givers.end(), is_founder))
        throw ProtocolError("it expects first weights of workers that the job does not begin with");
    options_.servers = all_servers;
    begin(beginning);
}

// ---- Workers ---------------------------------------------------------------------------------------------

void ServerService::admit(transport::Admitted admitted) {
    Link::Owner& self = *this;
    links_.emplace_back(loop_, std::move(admitted.socket), memory_, self, Link::Side::host);
}

void ServerService::received(Link& link, const Json& note) try {
    first_&&& link == &*first_ ? take_from_first(note) : take(link, note);
} catch (const Json::exception&) {
    drop(link, "it sent a note that cannot be read");
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

void ServerService::take(Link& link, const Json& note) {
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

void ServerService::take_checkpoint(Worker worker, std::uint64_t number) {
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

void ServerService::received(Link& link, Message message) try {
    if (!shard_) throw ProtocolError("it pushed or pulled before the job had begun");
    shard_->take(link, message);
} catch (const ProtocolError& error) {
    drop(link, error.what());
}

void ServerService::drop(Link& link, const std::string& why) {
    log_line("hocket-params: {}: ends a connection: {}", own_name(), why);
    link.close();
    broke(link, why);
}

void ServerService::broke(Link& link, const std::string& why) {
    if (first_ && &link == &*first_) {
        first_deadline_ = Time::now() + options_.timeout;
        if (is_unused_) return;
        if (!is_done_ && !first_has_left_)
            log_line("hocket-params: {}: the connection with the first server broke: {}", own_name(), why);
        return dial_first_later();
    }
    forget(link, why);
}

void ServerService::forget(Link& link, const std::string& why) {
    std::erase_if(early_, [&](const auto& early) { return early.first == &link; });
    if (front_) front_->lost(link);
    if (shard_) shard_->lost(link, why);
}

ChunkShape ServerService::shape_of(const Link&, Chunk chunk) const {
    if (!shard_) throw ProtocolError("it sent elements before the job had begun");
    return shard_->shape_of(chunk);
}

Bounds ServerService::bounds(const Link&) const {
    return shard_ ? shard_->bounds() : Bounds{};
}

}  // namespace hocket::params
