// Requests that a worker's calls have started and may wait for.
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

// Thread-safe. A request is stored here until it has been waited for.
class Requests {
  public:
    explicit Requests(std::chrono::milliseconds timeout) : timeout_(timeout) {}

    // text: the error if the deadline passes; it says what has not happened. If the worker has failed, the
    // request ends at once.
    ParameterRequest* make(std::string text);
    // Waits for the request and returns the time when it ended, or throws its error; the request is destroyed
    // in both cases. Returns nothing if it has not ended before `until`.
    std::optional<transport::Clock::time_point> wait(ParameterRequest* request,
                                                     transport::Clock::time_point until);
    // The request has no deadline until the deadline is started.
    void hold_deadline(ParameterRequest& request);
    void start_deadline(ParameterRequest& request);
    // Returns true if the request may still be waited for. One that is over may have been destroyed.
    bool is_open(const ParameterRequest* request) const;

    void end(ParameterRequest& request, Status status = Status::success, const std::string& why = "");
    // Records the arrival of one of the chunks that the request waits for; the last one ends it. Returns true
    // if it has ended.
    bool one_is_there(ParameterRequest& request);
    // Ends the request when rounds below this are covered.
    void end_when_covered(ParameterRequest& request, Clock room_at);
    void are_covered(Clock clock);

    // Returns the requests whose deadline has passed. pause: time since the last call that does not count.
    std::vector<ParameterRequest*> late(transport::Clock::time_point now, transport::Clock::duration pause);

    // ---- The worker as a whole
    void has_joined();
    // Sets the reason why the worker has not joined yet, for those that wait for it; "": unknown.
    void postpone(std::string why);
    std::string why_postponed() const;
    // Returns false if the worker has not joined before `until`. Throws the error that has made the worker
    // fail.
    bool wait_until_joined(transport::Clock::time_point until);
    // Ends all current and future requests with this error. The first failure counts.
    void fail(Status status, const std::string& why);
    bool is_working() const;  // it has joined and has not failed
    void require_alive() const;

  private:
    void end_locked(ParameterRequest& request, Status status, const std::string& why);

    const std::chrono::milliseconds timeout_;
    mutable std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    std::list<ParameterRequest> requests_;
    bool has_joined_ = false;
    std::string why_postponed_;
    Status failure_ = Status::success;
    std::string why_;
};

// Requests for checkpoints of all servers, one after another. Used only on the service's thread.
class CheckpointRequests {
  public:
    // ask: asks each server for a checkpoint, with a number that its answer repeats.
    CheckpointRequests(Requests& requests, std::function<void(std::uint64_t number)> ask)
        : requests_(requests), ask_(std::move(ask)) {}

    void add(ParameterRequest* request, std::size_t servers);
    // Called once for each server and number. error: "", or why the server has no checkpoint.
    void answered(std::uint64_t number, const std::string& error);
    void give_up(ParameterRequest* request);  // no thread waits for it any more
    void clear() { waiting_.clear(); }

  private:
    void ask_for_next();

    Requests& requests_;
    const std::function<void(std::uint64_t)> ask_;
    std::size_t servers_ = 0;
    std::deque<ParameterRequest*> waiting_;  // servers have been asked for the first one
    std::uint64_t number_ = 0;               // the number of that request
    std::string error_;                      // a server's error for it
};

}  // namespace hocket::params
