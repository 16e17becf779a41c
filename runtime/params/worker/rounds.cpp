// What a worker does in its rounds: it pushes, pulls, and waits for both.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "runtime/params/worker/worker_service.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

std::string tensors_text(std::uint32_t first, std::size_t count) {
    return count == 1 ? fmt::format("tensor {}", first) : fmt::format("{} tensors from {} on", count, first);
}

std::string chunks_text(std::size_t count) {
    return count == 1 ? "1 chunk" : fmt::format("{} chunks", count);
}

}  // namespace

// ---- Pushing ---------------------------------------------------------------------------------------------

ParameterRequest* WorkerService::push(std::uint32_t first, std::span<const std::byte* const> gradients) {
    require_tensors(first, gradients.size());
    staging_->add(first, gradients);
    return make_room_request(
        fmt::format("room for updates of {} has not come", tensors_text(first, gradients.size())));
}

ParameterRequest* WorkerService::push(std::uint32_t tensor, const SparseUpdate& gradient) {
    require_tensors(tensor, 1);
    staging_->add_sparse(tensor, gradient.indices, gradient.values);
    return make_room_request(fmt::format("room for an update of tensor {} has not come", tensor));
}

void WorkerService::full(Chunk chunk, Value gradient) {
    mailbox_.post([this, chunk, round = clock_.load(), gradient = std::move(gradient)] {
        if (upstreams_.empty()) return;
        const std::uint32_t server = layout_->server_of(chunk);
        upstreams_[server]->node().push(chunk - layout_->first_of(server), round, gradient);
        upstreams_[server]->deliver();
    });
}

// Waits for room for the round's updates, which a caller that has not waited for its pushes would otherwise
// skip: a server has room for a limited number of rounds.
Clock WorkerService::tick() {
    requests_.require_alive();
    requests_.wait(
        make_room_request(fmt::format("room for the updates of round {} has not come", clock_.load())),
        Time::time_point::max());
    staging_->finish();
    return ++clock_;
}

// The worker has no updates of rounds before its first one, and servers may not report those as covered for
// long.
Clock WorkerService::covered() const {
    Clock lowest = UINT64_MAX;
    for (const auto& upstream : upstreams_) lowest = std::min(lowest, upstream->node().covered());
    return std::max(lowest, first_);
}

// ---- Pulling ---------------------------------------------------------------------------------------------

ParameterRequest* WorkerService::pull(std::uint32_t first, std::span<std::byte* const> weights,
                                      Clock staleness) {
    require_tensors(first, weights.size());
    return pull(wanted_of_tensors(*layout_, first, weights), least_clock(clock_, staleness),
                tensors_text(first, weights.size()));
}

ParameterRequest* WorkerService::pull_ahead(std::span<const Chunk> chunks,
                                            std::span<std::byte* const> weights, Clock staleness) {
    requests_.require_alive();
    ParameterRequest* const request = pull(wanted_of_chunks(*layout_, chunks, weights),
                                           least_clock(clock_ + 1, staleness), chunks_text(chunks.size()));
    requests_.hold_deadline(*request);
    return request;
}

std::vector<ParameterRequest*> WorkerService::pull_in_turn(std::span<const std::vector<Chunk>> batches,
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
Clock WorkerService::least_clock(Clock round, Clock staleness) const {
    if (job_->staleness && staleness > *job_->staleness)
        throw Error(Status::invalid_argument,
                    fmt::format("a pull with staleness {}, where the service was opened for {} at most",
                                staleness, *job_->staleness));
    return job_->staleness && round > staleness ? round - staleness : 0;
}

// Makes the request for weights of this clock or later ones.
std::shared_ptr<Wanted> WorkerService::ask(Wanted wanted, Clock least, const std::string& what) {
    ParameterRequest* const request =
        requests_.make(fmt::format("weights of round {} or later of {} have not come", least, what));
    for (auto& [chunk, waiting] : wanted) {
        waiting.request = request;
        waiting.clock = least;
    }
    request->left = wanted.size();
    return std::make_shared<Wanted>(std::move(wanted));
}

ParameterRequest* WorkerService::pull(Wanted wanted, Clock least, const std::string& what) {
    const auto asked = ask(std::move(wanted), least, what);
    ParameterRequest* const request = asked->begin()->second.request;
    mailbox_.post([this, asked] { pulls_.take(asked); });
    return request;
}

void WorkerService::news(std::uint32_t server) {
    for (const Node::Pulled& pulled : upstreams_[server]->node().pulled())
        pulls_.hand_out(layout_->first_of(server) + pulled.chunk, pulled);
    pulls_.take_turns();
    const Clock now_covered = covered();
    covered_ = now_covered;
    requests_.are_covered(now_covered);
}

// ---- Checkpoints -----------------------------------------------------------------------------------------

ParameterRequest* WorkerService::checkpoint() {
    requests_.require_alive();
    ParameterRequest* const request = requests_.make("not all servers have written checkpoints");
    mailbox_.post([this, request] {
        if (requests_.is_open(request)) checkpoints_.add(request, upstreams_.size());
    });
    return request;
}

// ---- Requests --------------------------------------------------------------------------------------------

void WorkerService::require_tensors(std::uint32_t first, std::size_t count) const {
    requests_.require_alive();
    if (first > job_->tensors.size() || count > job_->tensors.size() - first || count == 0)
        throw Error(Status::invalid_argument,
                    fmt::format("{} tensors from {} on: the job has {}, numbered from 0", count, first,
                                job_->tensors.size()));
}

// Limits how far a worker may be ahead of what servers have covered, because it keeps its updates until then.
ParameterRequest* WorkerService::make_room_request(std::string text) {
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

std::optional<Time::time_point> WorkerService::wait(ParameterRequest* request, Time::time_point until) {
    return requests_.wait(request, until);
}

// The service's thread, which may be writing to the request's memory, forgets the request first; only then
// may the memory be freed.
void WorkerService::give_up(ParameterRequest* request) {
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
void WorkerService::fail(Status status, const std::string& why) {
    pulls_.clear();
    checkpoints_.clear();
    for (const auto& upstream : upstreams_) upstream->leave();
    requests_.fail(status, why);
}

// Time in which a server is away does not count: that has its own deadline, after which everything fails.
void WorkerService::end_late_requests(Time::time_point now) {
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

std::string WorkerService::likely_cause() const {
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
bool WorkerService::in_thread(const std::function<void()>& call) {
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

WorkerStats WorkerService::stats() {
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
