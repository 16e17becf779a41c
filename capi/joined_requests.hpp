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
#include "runtime/engine/endings.hpp"

namespace hocket::capi {

struct JoinedRequest : Request {
    JoinedRequest() : Request(Type::joined) {}

    std::mutex mutex;  // guards what follows; whoever waits holds it
    bool is_lent = false;
    std::vector<Request*> parts;  // null: it has ended, and is gone
    std::exception_ptr failure;   // of the first part that failed
};

// Those of one communicator. They are used again, and none is freed before the communicator, so one that is
// gone is told from one that is the program's. Thread-safe.
class JoinedRequests {
  public:
    // The parts belong to it from now on. Throws std::bad_alloc; then they are the caller's as before.
    JoinedRequest& join(const std::vector<Request*>& parts);

    // True: all parts have ended, and it is gone. Throws the failure of the first part that failed, once all
    // have ended; Error(invalid_argument) for one that is gone.
    static bool wait(JoinedRequest& joined, engine::Communicator& engine,
                     std::chrono::steady_clock::time_point until);

    // Tells the program once, when the last part has ended. Throws as Progress::tell_end does.
    void tell_end(JoinedRequest& joined, engine::Communicator& engine, engine::Endings::Way way);

  private:
    // What is still to be told of a joined request.
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
