// A thread that makes progress on a communicator's operations while the application's threads do other work.
// It sleeps unless an operation is in flight for which no thread waits, and leaves the work to any thread
// that waits.
#pragma once

#include <atomic>

#include "runtime/base/thread.hpp"
#include "runtime/engine/progress/progress.hpp"

namespace hocket::engine {

class Background {
  public:
    explicit Background(Progress& progress);  // throws hocket::Error(out_of_memory)
    ~Background();                            // ends the thread

  private:
    void run();
    void wait_for_work() const;
    bool needs_help() const;

    Progress& progress_;
    LeftAlone& left_alone_;
    std::atomic<bool> is_ending_ = false;
    std::thread thread_;
};

}  // namespace hocket::engine
