// Several operations of a communicator under one request.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/request.hpp"
#include "runtime/engine/communicator.hpp"
#include "runtime/engine/progress/endings.hpp"

namespace hocket::capi {

struct JoinedRequest : Request {
    JoinedRequest() : Request(Type::joined) {}

    std::mutex mutex;  // guards the members below; held by a thread that waits
    bool is_lent = false;
    std::vector<Request*> parts;  // null: the part has ended and was freed
    std::exception_ptr failure;   // the failure of the first part that failed
};

// The joined requests of one communicator. They are reused, and none is freed before the communicator, so a
// handle that was already given back can be told from one that is in use. Thread-safe.
class JoinedRequests {
  public:
    // Takes ownership of the parts. If it throws std::bad_alloc, they still belong to the caller.
    JoinedRequest& join(const std::vector<Request*>& parts);

    // Returns true if all parts have ended; the request is given back then. Once all have ended, throws the
    // failure of the first part that failed. Throws Error(invalid_argument) if the request was already given
    // back.
    static bool wait(JoinedRequest& joined, engine::Communicator& engine,
                     std::chrono::steady_clock::time_point until);

    // Tells the program once, when the last part has ended. Throws as Progress::tell_end does.
    void tell_end(JoinedRequest& joined, engine::Communicator& engine, engine::Endings::Way way);

  private:
    // A notification that is pending until all parts of a joined request have ended.
    struct Countdown {
        JoinedRequests* owner;
        engine::Endings::Way way;
        std::size_t left;  // parts that have not ended
        std::list<Countdown>::iterator self;
    };
    static void count(void* countdown);
    void drop(Countdown& countdown, std::size_t parts, bool tells);

    std::mutex mutex_;
    std::vector<std::unique_ptr<JoinedRequest>> all_;
    std::list<Countdown> countdowns_;
};

}  // namespace hocket::capi
