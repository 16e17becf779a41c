// FIFOs that release processes which wait for their other end, so that a test ends.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/segments/descriptor.hpp"

namespace hocket::test {

class Fifos {
  public:
    explicit Fifos(std::vector<std::string> paths) : paths_(std::move(paths)) {
        for (const std::string& path : paths_)
            if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("no FIFO: " + path);
        rescuer_ = std::jthread([this](const std::stop_token& stop) { rescue(stop); });
    }

    // Returns whether no process has waited for long so far.
    bool are_passed() {
        const std::scoped_lock lock(mutex_);
        return ends_.empty();
    }

  private:
    void rescue(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        stopped_.wait_for(lock, stop, std::chrono::seconds(20), [] { return false; });
        if (stop.stop_requested()) return;
        for (const std::string& path : paths_) ends_.emplace_back(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    }

    const std::vector<std::string> paths_;
    std::mutex mutex_;
    std::condition_variable_any stopped_;
    std::vector<cache::Descriptor> ends_;
    std::jthread rescuer_;
};

}  // namespace hocket::test
