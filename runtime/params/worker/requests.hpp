// What a worker's calls have started, and wait for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/params/worker/request.hpp"

namespace hocket::params {

// Thread-safe. A request is here until it is waited for.
class Requests {
  public:
    explicit Requests(std::chrono::milliseconds timeout) : timeout_(timeout) {}

    // text: what has not come to pass, for the error if its time is over. If the worker has failed, the
    // request ends at once.
    ParameterRequest* make(std::string text);
    // When it has ended; it is gone then. Or throws why it failed, and it is gone. Nothing: not before
    // `until`.
    std::optional<transport::Clock::time_point> wait(ParameterRequest* request,
                                                     transport::Clock::time_point until);
    // It is never late, until its time begins.
    void hold_deadline(ParameterRequest& request);
    void start_deadline(ParameterRequest& request);
    // Whether it is still waited for: what is over may be gone.
    bool is_open(const ParameterRequest* request) const;

    void end(ParameterRequest& request, Status status = Status::success, const std::string& why = "");
    // One of those that it waits for is there; the last one ends it. Returns whether it has ended.
    bool one_is_there(ParameterRequest& request);
    // It ends when rounds below this are covered.
    void end_when_covered(ParameterRequest& request, Clock room_at);
    void are_covered(Clock clock);

    // Whose time is over. pause: time since the last call that does not count.
    std::vector<ParameterRequest*> late(transport::Clock::time_point now, transport::Clock::duration pause);

    // ---- The worker as a whole
    void has_joined();
    // Why it has not joined yet, for who waits for that; "": it is not known.
    void postpone(std::string why);
    std::string why_postponed() const;
    // False: not before `until`. Throws what has made the worker fail.
    bool wait_until_joined(transport::Clock::time_point until);
    // All requests end so, and all that come. The first failure counts.
    void fail(Status status, const std::string& why);
    bool is_working() const;  // it has joined, and has not failed
    void require_alive() const;

  private:
    void end_locked(ParameterRequest& request, Status status, const std::string& why);

    const std::chrono::milliseconds timeout_;
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::list<ParameterRequest> requests_;
    bool has_joined_ = false;
    std::string why_postponed_;
    Status failure_ = Status::success;
    std::string why_;
};

// Requests for checkpoints of all servers, one after another. Of the service's thread.
class CheckpointRequests {
  public:
    // ask: each server for a checkpoint, with a number that its answer has.
    CheckpointRequests(Requests& requests, std::function<void(std::uint64_t number)> ask)
        : requests_(requests), ask_(std::move(ask)) {}

    void add(ParameterRequest* request, std::size_t servers);
    // Each server says so once for each number. error: "", or why it has none.
    void answered(std::uint64_t number, const std::string& error);
    void give_up(ParameterRequest* request);  // nobody waits for it any more
    void clear() { waiting_.clear(); }

  private:
    void ask_for_next();

    Requests& requests_;
    const std::function<void(std::uint64_t)> ask_;
    std::size_t servers_ = 0;
    std::deque<ParameterRequest*> waiting_;  // servers were asked for the first one
    std::uint64_t number_ = 0;               // of that
    std::string error_;                      // what a server has answered to it
};

}  // namespace hocket::params
