#include "capi/joined_requests.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "capi/errors.hpp"

namespace hocket::capi {
namespace {

void require_lent(const JoinedRequest& joined) {
    if (!joined.is_lent)
        refuse(
            "this request is not in flight: was it waited for before? A request ends with hkt_wait, or with "
            "an hkt_test that does not return HKT_IN_PROGRESS");
}

bool wait_for_part(Request& part, engine::Communicator& engine, std::chrono::steady_clock::time_point until) {
    return part.type == Request::Type::message
               ? engine.progress().wait(static_cast<engine::MessageRequest&>(part), until)
               : engine.progress().wait(static_cast<engine::Execution&>(part), until);
}

}  // namespace

JoinedRequest& JoinedRequests::join(const std::vector<Request*>& parts) {
    const std::lock_guard lock(mutex_);
    std::unique_lock<std::mutex> its;
    // Skips a request whose mutex is locked: a thread waits for that request, perhaps for an operation that
    // this thread is about to start. No thread waits for a request's mutex while it holds mutex_, because
    // tell_end() locks them in the opposite order.
    auto idle = std::ranges::find_if(all_, [&its](const auto& one) {
        its = std::unique_lock(one->mutex, std::try_to_lock);
        return its && !one->is_lent;
    });
    if (idle == all_.end()) {
        idle = all_.insert(all_.end(), std::make_unique<JoinedRequest>());
        its = std::unique_lock((*idle)->mutex, std::try_to_lock);  // no other thread knows of it
    }
    JoinedRequest& joined = **idle;
    joined.parts = parts;
    joined.failure = nullptr;
    joined.is_lent = true;
    return joined;
}

bool JoinedRequests::wait(JoinedRequest& joined, engine::Communicator& engine,
                          std::chrono::steady_clock::time_point until) {
    const std::lock_guard lock(joined.mutex);
    require_lent(joined);
    for (Request*& part : joined.parts) {
        if (part == nullptr) continue;
        try {
            if (!wait_for_part(*part, engine, until)) return false;
        } catch (const std::exception&) {
            if (!joined.failure) joined.failure = std::current_exception();
        }
        part = nullptr;
    }
    joined.is_lent = false;
    if (joined.failure) std::rethrow_exception(std::exchange(joined.failure, nullptr));
    return true;
}

void JoinedRequests::tell_end(JoinedRequest& joined, engine::Communicator& engine, engine::Endings::Way way) {
    const std::lock_guard lock(joined.mutex);
    require_lent(joined);
    std::vector<Request*> open;
    for (Request* part : joined.parts)
        if (part != nullptr) open.push_back(part);
    Countdown* made = nullptr;
    {
        const std::lock_guard own(mutex_);
        countdowns_.push_back({this, std::move(way), open.size(), {}});  // a lent request has an open part
        countdowns_.back().self = std::prev(countdowns_.end());
        made = &countdowns_.back();
    }
    std::size_t told = 0;
    try {
        for (; told < open.size(); ++told) engine.progress().tell_end(*open[told], engine::Call{count, made});
    } catch (...) {
        drop(*made, open.size() - told, false);
        throw;
    }
}

void JoinedRequests::count(void* countdown) {
    auto& one = *static_cast<Countdown*>(countdown);
    one.owner->drop(one, 1, true);
}

// The last part to end tells the program, unless tell_end() has failed.
void JoinedRequests::drop(Countdown& countdown, std::size_t parts, bool tells) {
    engine::Endings::Way way;
    {
        const std::lock_guard lock(mutex_);
        if (!tells) countdown.way = engine::Call{nullptr, nullptr};
        countdown.left -= parts;
        if (countdown.left > 0) return;
        way = std::move(countdown.way);
        countdowns_.erase(countdown.self);
    }
    if (const auto* const call = std::get_if<engine::Call>(&way)) {
        if (call->function != nullptr) call->function(call->user);
    } else {
        eventfd_write(std::get<transport::Socket>(way).fd(), 1);
    }
}

}  // namespace hocket::capi
