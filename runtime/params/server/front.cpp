#include "runtime/params/server/front.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"
#include "runtime/params/service/note.hpp"
#include "runtime/transport/net/frame.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
using transport::ProtocolError;

// A first server that has replaced another does not know all numbers that its predecessor gave to workers. So
// the upper bits of a new number are the incarnation.
constexpr int bits_within_incarnation = 20;

void refuse_link(Link& link, const std::string& why) {
    link.send(Json{{"say", "refused"}, {"why", why}});
    link.close_when_sent();
}

Json places_note(const std::vector<std::string>& places) {
    return {{"say", "servers"}, {"at", places}};
}

}  // namespace

Front::Front(std::uint32_t servers, Own own, MakeCalculator make_calculator,
             std::function<void(const Beginning&)> begin)
    : servers_(servers),
      every_(own.every),
      make_calculator_(std::move(make_calculator)),
      begin_(std::move(begin)),
      known_(servers) {
    known_[0].at = std::move(own.at);
    known_[0].rack = std::move(own.rack);
}

void Front::restore(Job job, std::string run, std::uint32_t incarnation) {
    incarnation_ = incarnation;
    beginning_ = {job, 0, {}, {}, std::move(run)};
    job_ = std::move(job);
    beginning_->servers = used_servers();
    next_ = Worker{incarnation} << bits_within_incarnation;
}

// With a very small model some servers get no chunks.
std::uint32_t Front::used_servers() const {
    return static_cast<std::uint32_t>(std::min<std::size_t>(servers_, Layout(*job_, 1).chunks()));
}

// ---- Workers ---------------------------------------------------------------------------------------------

void Front::take_open(Link& link, const Json& note) {
    Job job;
    try {
        job = decode_job(note.at("job").get<std::string>());
    } catch (const ProtocolError& error) {
        return refuse_link(link, error.what());
    }
    Caller caller{&link, std::nullopt, note.at("has_weights").get<bool>()};
    if (note.contains("number")) caller.wanted = said_worker(note.at("number"));
    const auto is_it = [&](const Caller& known) { return known.link == &link; };
    if (std::any_of(callers_.begin(), callers_.end(), is_it))
        throw ProtocolError("it opened the job twice on one connection");
    if (caller.wanted && *caller.wanted >> bits_within_incarnation != 0)
        return refuse_link(link,
                           fmt::format("it wants the number {}; the numbers of initial workers are below {}",
                                       *caller.wanted, 1 << bits_within_incarnation));
    const auto has_number = [&](const Caller& known) { return known.wanted == caller.wanted; };
    if (!beginning_ && caller.wanted && std::any_of(callers_.begin(), callers_.end(), has_number))
        return refuse_link(link, fmt::format("another worker has the number {}", *caller.wanted));
    if (!job_) {
        try {
            make_calculator_(job);
        } catch (const Error& error) {
            return refuse_link(link, error.what());
        }
        job_ = job;
    } else {
        if (beginning_) job.workers = job_->workers;  // the job has begun with that many
        if (const std::string why = difference(*job_, job); !why.empty())
            return refuse_link(link, "the job is another one: " + why);
    }
    callers_.push_back(caller);
    beginning_ ? try_to_answer() : try_to_begin();
}

void Front::try_to_begin() {
    if (beginning_ || !job_ || callers_.size() < job_->workers || !places()) return;
    Beginning beginning{*job_, used_servers(), {}, {}, random_hex(8), every_};
    std::set<Worker> taken;
    for (const Caller& caller : callers_)
        if (caller.wanted) taken.insert(*caller.wanted);
    std::vector<std::pair<Caller, Worker>> answers;
    std::set<Worker> given, givers;
    for (const Caller& caller : callers_) {
        while (!caller.wanted && taken.contains(next_)) ++next_;
        const Worker number = caller.wanted ? *caller.wanted : next_++;
        given.insert(number);
        answers.emplace_back(caller, number);
        if (caller.has_weights) givers.insert(number);
    }
    beginning.founders.assign(given.begin(), given.end());
    beginning.givers.assign(givers.begin(), givers.end());
    next_ = std::max(next_, *given.rbegin() + 1);
    beginning_ = beginning;
    callers_.clear();
    for (std::uint32_t index = 1; index < servers_; ++index) tell_server(index);
    begin_(beginning);
    tell_racks();
    for (const auto& [caller, number] : answers) answer(caller, number);
}

void Front::try_to_answer() {
    if (!places()) return;
    for (const Caller& caller : std::exchange(callers_, {})) answer(caller, next_++);
}

void Front::answer(const Caller& caller, Worker number) {
    caller.link->send(
        Json{{"say", "opened"}, {"number", number}, {"run", beginning_->run}, {"servers", *places()}});
}

// ---- Servers ---------------------------------------------------------------------------------------------

void Front::take_serve(Link& link, const Json& note) {
    const std::string at = said_place(note.at("at")), rack = said_name(note.at("rack"));
    const bool is_restored = note.at("is_restored").get<bool>();
    if (index_of(link)) throw ProtocolError("it introduced itself as two servers");
    const std::string process = said_name(note.at("process"));
    const auto same = std::find_if(known_.begin(), known_.end(), [&](const Known& server) {
        return !process.empty() && server.process == process;
    });
    if (beginning_ && !is_restored && same == known_.end())
        return refuse_link(link,
                           "the job has begun; a server that takes the place of another needs its checkpoint "
                           "(--restore)");
    // The server's weights are those of a job that is unknown here.
    if (is_restored && (!beginning_ || note.at("run").get<std::string>() != beginning_->run))
        return refuse_link(
            link,
            "it goes on with another job; start the first server with its checkpoint of that one "
            "(--restore), or this one without");
    std::uint32_t index = 1;
    if (note.contains("index"))
        index = said_server(note.at("index"));
    else if (same != known_.end())
        index = static_cast<std::uint32_t>(same - known_.begin());
    else
        while (index < servers_ && !known_[index].at.empty()) ++index;
    if (index == 0 || index >= servers_)
        return refuse_link(
            link,
            fmt::format("there are {} servers already, as many as the first one was started for "
                        "(--servers); one that takes the place of another needs its checkpoint (--restore)",
                        servers_));
    const auto incarnation =
        is_restored ? static_cast<std::uint32_t>(said_number(note.at("incarnation"), UINT32_MAX)) : 0;
    constexpr auto replaced = "another process has taken its place";
    Known& server = known_[index];
    if (incarnation < server.incarnation) return refuse_link(link, replaced);
    // The old process was stopped for a time and was taken for dead.
    if (incarnation > server.incarnation && server.link) refuse_link(*server.link, replaced);
    const bool has_moved = beginning_ && server.at != at;
    server = {at, rack, process, &link, incarnation};
    link.send(Json{{"say", "serving"}, {"index", index}});
    if (beginning_ && !is_restored) tell_server(index);  // its connection broke as the job began
    if (has_moved) tell_workers(places_note(all_places()));
    if (beginning_) tell_racks();
    beginning_ ? try_to_answer() : try_to_begin();
}

void Front::tell_server(std::uint32_t index) {
    const Beginning& beginning = *beginning_;
    Link* const link = known_[index].link;
    if (!link) return;
    if (index >= beginning.servers) return link->send(Json{{"say", "unused"}});
    link->send(Json{{"say", "begin"},
                    {"job", encode(beginning.job)},
                    {"servers", beginning.servers},
                    {"all_servers", servers_},
                    {"founders", beginning.founders},
                    {"givers", beginning.givers},
                    {"run", beginning.run},
                    {"every", beginning.every}});
}

// To estimate a tree's cost, a server needs the load that all servers' trees together put on each link.
void Front::tell_racks() {
    std::vector<std::string> racks;
    for (const Known& server : known_) racks.push_back(server.rack);
    for (const Known& server : known_)
        if (server.link) server.link->send(Json{{"say", "racks"}, {"racks", racks}});
    tell_own_shard(racks);
}

std::optional<std::vector<std::string>> Front::places() const {
    const std::uint32_t needed = beginning_ ? beginning_->servers : servers_;
    for (std::uint32_t index = 0; index < needed; ++index)
        if (known_[index].at.empty()) return std::nullopt;
    std::vector<std::string> places = all_places();
    places.resize(job_ ? used_servers() : needed);
    return places;
}

std::vector<std::string> Front::all_places() const {
    std::vector<std::string> places;
    for (const Known& server : known_) places.push_back(server.at);
    return places;
}

void Front::tell_places(Link& worker) const {
    if (beginning_) worker.send(places_note(all_places()));
}

std::optional<std::uint32_t> Front::index_of(const Link& link) const {
    const auto found =
        std::find_if(known_.begin(), known_.end(), [&](const Known& server) { return server.link == &link; });
    if (found == known_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - known_.begin());
}

void Front::take_leaving(Link& link) {
    const auto index = index_of(link);
    if (!index) throw ProtocolError("it announced that it leaves, but it is not a server");
    forget(known_[*index]);
}

// Before the job begins, another process may take the server's place.
void Front::forget(Known& server) const {
    server.link = nullptr;
    if (!beginning_) server = {};
}

void Front::leave() {
    for (const Known& server : known_) {
        if (!server.link) continue;
        server.link->send(Json{{"say", "leaving"}});
        server.link->close_when_sent();
    }
}

bool Front::has_left() const {
    return std::none_of(known_.begin(), known_.end(),
                        [](const Known& server) { return server.link && server.link->is_open(); });
}

void Front::lost(Link& link) {
    std::erase_if(callers_, [&](const Caller& caller) { return caller.link == &link; });
    if (const auto index = index_of(link)) {
        log_line("hocket-params: server 0: the connection with server {} ({}) broke", *index,
                 known_[*index].at);
        forget(known_[*index]);
    }
    if (!beginning_ && callers_.empty()) job_.reset();  // the next worker may begin another job
}

std::string Front::missing() const {
    std::vector<std::string> parts;
    const std::uint32_t needed = beginning_ ? beginning_->servers : servers_;
    const auto here = std::count_if(known_.begin(), known_.begin() + needed,
                                    [](const Known& server) { return !server.at.empty(); });
    if (here < needed) parts.push_back(fmt::format("{} of {} servers have come", here, needed));
    if (!job_)
        parts.push_back("no worker has come");
    else if (!beginning_ && callers_.size() < job_->workers)
        parts.push_back(fmt::format("{} of {} workers have come", callers_.size(), job_->workers));
    return fmt::format("{}", fmt::join(parts, ", and "));
}

}  // namespace hocket::params
