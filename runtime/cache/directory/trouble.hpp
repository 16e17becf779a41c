// Why nothing is written, and when that is to be tried again.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace hocket::cache {

// Thread-safe.
class Trouble {
  public:
    void set(const std::string& text) {
        const std::scoped_lock lock(mutex_);
        text_ = text;
        next_try_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    }
    void clear() {
        const std::scoped_lock lock(mutex_);
        text_.clear();
    }
    std::string text() const {
        const std::scoped_lock lock(mutex_);
        return text_;
    }
    bool may_try() const {
        const std::scoped_lock lock(mutex_);
        return std::chrono::steady_clock::now() >= next_try_;
    }

  private:
    mutable std::mutex mutex_;
    std::string text_;
    std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace hocket::cache
