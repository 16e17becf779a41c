#include "runtime/params/service/front.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/log.hpp"
#include "runtime/net/frame.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
using transport::ProtocolError;

// Numbers of workers that come to a first server that was replaced: those that its predecessor gave are not
// all known.
constexpr int bits_within_incarnation = 20;

void refuse(Link& link, const std::string& why) {
    link.send(Json{{"say", "refused"}, {"why", why}});
    link.close_when_sent();
}

Json places_note(const std::vector<std::string>& places) {
    return {{"say", "servers"}, {"at", places}};
}

}  // namespace

Front::Front(std::uint32_t servers, std::string own, MakeCalculator make_calculator,
             std::function<void(const Beginning&)> begin)
    : servers_(servers),
      make_calculator_(std::move(make_calculator)),
      begin_(std::move(begin)),
      at_(servers),
      links_(servers) {
    at_[0] = std::move(own);
}

void Front::restore(Job job, std::uint32_t incarnation) {
    incarnation_ = incarnation;
    beginning_ = {job, 0, {}, false};
    job_ = std::move(job);
    beginning_->servers = used_servers();
    next_ = Worker{incarnation} << bits_within_incarnation;
}

// With very small models some servers have nothing.
std::uint32_t Front::used_servers() const {
    return static_cast<std::uint32_t>(std::min<std::size_t>(servers_, Layout(*job_, 1).chunks()));
}

// ---- Workers ---------------------------------------------------------------------------------------------

void Front::take_open(Link& link, const Json& note) {
    Job job;
    try {
        job = decode_job(note.at("job").get<std::string>());
    } catch (const ProtocolError& error) {
        return refuse(link, error.what());
    }
    if (!job_) {
        try {
            make_calculator_(job);
        } catch (const Error& error) {
            return refuse(link, error.what());
        }
        job_ = job;
    } else if (const std::string why = difference(*job_, job); !why.empty())
        return refuse(link, "the job is another one: " + why);
    Caller caller{&link, std::nullopt, note.at("has_weights").get<bool>()};
    if (note.contains("number")) caller.wanted = note.at("number").get<Worker>();
    callers_.push_back(caller);
    beginning_ ? try_to_answer() : try_to_begin();
}

void Front::try_to_begin() {
    if (beginning_ || !job_ || callers_.size() < job_->workers || !places()) return;
    Beginning beginning{*job_, used_servers(), {}, false};
    std::set<Worker> taken;
    for (const Caller& caller : callers_)
        if (caller.wanted) taken.insert(*caller.wanted);
    std::vector<std::pair<Caller, Worker>> answers;
    std::set<Worker> given;
    for (const Caller& caller : callers_) {
        Worker number;
        if (caller.wanted && !given.contains(*caller.wanted))
            number = *caller.wanted;
        else {
            while (taken.contains(next_)) ++next_;
            number = next_++;
        }
        given.insert(number);
        answers.emplace_back(caller, number);
        beginning.has_weights |= caller.has_weights;
    }
    beginning.founders.assign(given.begin(), given.end());
    next_ = std::max(next_, *given.rbegin() + 1);
    beginning_ = beginning;
    callers_.clear();
    for (std::uint32_t index = 1; index < servers_; ++index) tell_server(index);
    begin_(beginning);
    for (const auto& [caller, number] : answers) answer(caller, number);
}

void Front::try_to_answer() {
    if (!places()) return;
    for (const Caller& caller : std::exchange(callers_, {})) answer(caller, next_++);
}

void Front::answer(const Caller& caller, Worker number) {
    caller.link->send(Json{{"say", "opened"}, {"number", number}, {"servers", *places()}});
}

// ---- Servers ---------------------------------------------------------------------------------------------

void Front::take_serve(Link& link, const Json& note) {
    const auto at = note.at("at").get<std::string>();
    std::uint32_t index = 1;
    if (note.contains("index"))
        index = note.at("index").get<std::uint32_t>();
    else
        while (index < servers_ && !at_[index].empty()) ++index;
    if (index == 0 || index >= servers_)
        return refuse(link,
                      fmt::format("there are {} servers already, as many as the first one was started for "
                                  "(--servers); one that takes the place of another needs its checkpoint",
                                  servers_));
    const bool is_restored = note.at("is_restored").get<bool>();
    if (beginning_ && !is_restored)
        return refuse(link,
                      "the job has begun; a server that takes the place of another needs its checkpoint "
                      "(--restore)");
    const bool has_moved = beginning_ && at_[index] != at;
    at_[index] = at;
    links_[index] = &link;
    link.send(Json{{"say", "serving"}, {"index", index}});
    if (has_moved && places()) tell_workers(places_note(*places()));
    beginning_ ? try_to_answer() : try_to_begin();
}

void Front::tell_server(std::uint32_t index) {
    const Beginning& beginning = *beginning_;
    if (!links_[index]) return;
    if (index >= beginning.servers) return links_[index]->send(Json{{"say", "unused"}});
    links_[index]->send(Json{{"say", "begin"},
                             {"job", encode(beginning.job)},
                             {"servers", beginning.servers},
                             {"all_servers", servers_},
                             {"founders", beginning.founders},
                             {"has_weights", beginning.has_weights}});
}

std::optional<std::vector<std::string>> Front::places() const {
    const std::uint32_t needed = beginning_ ? beginning_->servers : servers_;
    for (std::uint32_t index = 0; index < needed; ++index)
        if (at_[index].empty()) return std::nullopt;
    return std::vector<std::string>(at_.begin(), at_.begin() + (job_ ? used_servers() : needed));
}

void Front::tell_places(Link& worker) const {
    if (const auto known = places()) worker.send(places_note(*known));
}

void Front::lost(Link& link) {
    std::erase_if(callers_, [&](const Caller& caller) { return caller.link == &link; });
    for (std::uint32_t index = 1; index < servers_; ++index)
        if (links_[index] == &link) {
            links_[index] = nullptr;
            if (!beginning_) at_[index].clear();
            log_line("hocket params: the connection with server {} ({}) has ended", index, at_[index]);
        }
    if (!beginning_ && callers_.empty()) job_.reset();  // who comes next may begin another one
}

std::string Front::missing() const {
    std::string text;
    const auto here =
        std::count_if(at_.begin(), at_.end(), [](const std::string& at) { return !at.empty(); });
    if (here < servers_) text = fmt::format("{} of {} servers have come", here, servers_);
    if (job_ && !beginning_ && callers_.size() < job_->workers)
        text += fmt::format("{}{} of {} workers have come", text.empty() ? "" : ", and ", callers_.size(),
                            job_->workers);
    return text;
}

}  // namespace hocket::params
