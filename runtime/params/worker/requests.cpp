#include "runtime/params/worker/requests.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::params {
namespace {

constexpr auto never = transport::Clock::time_point::max();

}  // namespace

ParameterRequest* Requests::make(std::string text) {
    const std::lock_guard lock(mutex_);
    ParameterRequest& request = requests_.emplace_back();
    request.text = std::move(text);
    request.deadline = transport::Clock::now() + timeout_;
    if (failure_ != Status::success) end_locked(request, failure_, why_);
    return &request;
}

std::optional<transport::Clock::time_point> Requests::wait(ParameterRequest* request,
                                                           transport::Clock::time_point until) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, until, [&] { return request->has_ended; })) return std::nullopt;
    const Status status = request->status;
    const std::string why = std::move(request->why);
    const auto ended_at = request->ended_at;
    requests_.remove_if([&](const ParameterRequest& one) { return &one == request; });
    if (status != Status::success) throw Error(status, why);
    return ended_at;
}

void Requests::hold_deadline(ParameterRequest& request) {
    const std::lock_guard lock(mutex_);
    request.deadline = never;
}

void Requests::start_deadline(ParameterRequest& request) {
    const std::lock_guard lock(mutex_);
    request.deadline = transport::Clock::now() + timeout_;
}

bool Requests::is_open(const ParameterRequest* request) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [&](const ParameterRequest& one) { return &one == request; });
    return found != requests_.end() && !found->has_ended;
}

void Requests::end(ParameterRequest& request, Status status, const std::string& why) {
    const std::lock_guard lock(mutex_);
    end_locked(request, status, why);
}

void Requests::end_locked(ParameterRequest& request, Status status, const std::string& why) {
    if (request.has_ended) return;
    request.has_ended = true;
    request.ended_at = transport::Clock::now();
    request.status = status;
    request.why = why;
    changed_.notify_all();
}

bool Requests::one_is_there(ParameterRequest& request) {
    const std::lock_guard lock(mutex_);
    if (--request.left > 0) return false;
    end_locked(request, Status::success, "");
    return true;
}

void Requests::end_when_covered(ParameterRequest& request, Clock room_at) {
    const std::lock_guard lock(mutex_);
    request.room_at = room_at;
}

void Requests::are_covered(Clock clock) {
    const std::lock_guard lock(mutex_);
    for (ParameterRequest& request : requests_)
        if (request.room_at > 0 && request.room_at <= clock) end_locked(request, Status::success, "");
}

std::vector<ParameterRequest*> Requests::late(transport::Clock::time_point now,
                                              transport::Clock::duration pause) {
    std::vector<ParameterRequest*> late;
    const std::lock_guard lock(mutex_);
    for (ParameterRequest& request : requests_) {
        if (request.deadline == never) continue;
        request.deadline += pause;
        if (!request.has_ended && request.deadline < now) late.push_back(&request);
    }
    return late;
}

// ---- The worker as a whole -------------------------------------------------------------------------------

void Requests::has_joined() {
    const std::lock_guard lock(mutex_);
    has_joined_ = true;
    changed_.notify_all();
}

bool Requests::wait_until_joined(transport::Clock::time_point until) {
    std::unique_lock lock(mutex_);
    const bool has_come =
        changed_.wait_until(lock, until, [&] { return has_joined_ || failure_ != Status::success; });
    if (failure_ != Status::success) throw Error(failure_, why_);
    return has_come;
}

void Requests::postpone(std::string why) {
    const std::lock_guard lock(mutex_);
    why_postponed_ = std::move(why);
}

std::string Requests::why_postponed() const {
    const std::lock_guard lock(mutex_);
    return why_postponed_;
}

void Requests::fail(Status status, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (failure_ != Status::success) return;
    failure_ = status;
    why_ = why;
    for (ParameterRequest& request : requests_) end_locked(request, status, why);
    changed_.notify_all();
}

bool Requests::is_working() const {
    const std::lock_guard lock(mutex_);
    return has_joined_ && failure_ == Status::success;
}

void Requests::require_alive() const {
    const std::lock_guard lock(mutex_);
    if (failure_ != Status::success) throw Error(failure_, why_);
}

// ---- Checkpoints -----------------------------------------------------------------------------------------

void CheckpointRequests::add(ParameterRequest* request, std::size_t servers) {
    servers_ = servers;
    waiting_.push_back(request);
    if (waiting_.size() == 1) ask_for_next();
}

void CheckpointRequests::ask_for_next() {
    error_.clear();
    ++number_;
    if (waiting_.empty()) return;
    waiting_.front()->left = servers_;
    ask_(number_);
}

void CheckpointRequests::answered(std::uint64_t number, const std::string& error) {
    if (waiting_.empty() || number != number_) return;
    ParameterRequest* const request = waiting_.front();
    if (error_.empty()) error_ = error;
    if (--request->left > 0) return;
    waiting_.pop_front();
    requests_.end(*request, error_.empty() ? Status::success : Status::io, error_);
    ask_for_next();
}

void CheckpointRequests::give_up(ParameterRequest* request) {
    const bool was_asked_for = !waiting_.empty() && waiting_.front() == request;
    std::erase(waiting_, request);
    if (was_asked_for) ask_for_next();
}

}  // namespace hocket::params
