// Notifies others that an operation has ended: the program through an eventfd or a call, internal users by a
// time stamp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "runtime/base/request.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::engine {

// A function of the program.
struct Call {
    void (*function)(void* user);
    void* user;
};

// Where the time of the end is written, in nanoseconds of the steady clock, by the thread that made the
// progress.
struct Moment {
    std::atomic<std::int64_t>* at;
};

// Calls functions one after another on a thread that starts with the first of them. Thread-safe.
class Caller {
  public:
    Caller() = default;
    ~Caller() { finish(); }
    Caller(const Caller&) = delete;

    // Starts the thread if there is none. Throws hocket::Error(out_of_memory).
    void prepare();
    // Moves the call into the queue. Allocates nothing; call prepare() first.
    void add(std::list<Call>& from, std::list<Call>::iterator call);
    // Returns after the last call, when the thread has ended. Must not be called from such a call.
    void finish();
    bool is_this_thread();

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::list<Call> due_;
    bool is_ending_ = false;
    std::thread thread_;
};

// The pending notifications. Not thread-safe, except for what caller() returns.
class Endings {
  public:
    // A duplicate of the program's eventfd, a call, or a time stamp.
    using Way = std::variant<transport::Socket, Call, Moment>;

    // Throws hocket::Error(out_of_memory), std::bad_alloc.
    void add(const Request& request, Way way);

    // Sends the notification of every request that has ended.
    template <typename HasEnded>
    void look(HasEnded has_ended) {
        for (auto at = waiting_.begin(); at != waiting_.end();)
            if (has_ended(*at->request))
                at = tell(at);
            else
                ++at;
    }

    Caller& caller() { return caller_; }

  private:
    struct Waiting {
        const Request* request;
        transport::Socket eventfd;
        std::list<Call> call;  // one or none; its node moves to the caller
        Moment moment;
    };

    std::list<Waiting>::iterator tell(std::list<Waiting>::iterator ended) noexcept;

    std::list<Waiting> waiting_;
    Caller caller_;
};

}  // namespace hocket::engine
