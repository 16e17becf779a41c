// Tells other processes that this one is loading a key, so that they wait for it instead.
#pragma once

#include <cstdint>

#include "runtime/cache/directory/directory.hpp"

namespace hocket::cache {

class KeyFlight {
  public:
    KeyFlight(Directory* directory, std::uint64_t key) : directory_(directory), key_(key) {}
    KeyFlight(const KeyFlight&) = delete;
    KeyFlight& operator=(const KeyFlight&) = delete;
    ~KeyFlight() {
        if (begun_) directory_->end_flight(key_);
    }

    // Returns false if another process is loading it.
    bool begin() { return begun_ = begun_ || directory_->begin_flight(key_); }

  private:
    Directory* const directory_;  // null: never begun
    const std::uint64_t key_;
    bool begun_ = false;
};

}  // namespace hocket::cache
