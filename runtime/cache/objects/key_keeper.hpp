// The settings of a site of S3, with keys that are renewed before they end.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/credentials.hpp"
#include "runtime/cache/objects/transfers.hpp"

namespace hocket::cache {

// Thread-safe.
class KeyKeeper {
  public:
    // Waits for a service of keys, where there are no others. Throws what find_s3_settings() and
    // ask_for_keys() throw.
    explicit KeyKeeper(Environment environment);
    ~KeyKeeper();
    KeyKeeper(const KeyKeeper&) = delete;

    // Does not wait. If the keys end soon, they are renewed meanwhile.
    S3Settings settings();

    // Returns true if there are other keys than the one that has expired, or may be soon: files are read
    // again, and services are asked. Does not wait. Throws what find_s3_settings() throws.
    bool has_others_than(const std::string& id);

  private:
    using Clock = Keys::Clock;

    void take(Keys keys);  // with the mutex, as are these
    void begin_renewal();
    void renew();  // on a thread; without the mutex

    const Environment environment_;
    std::unique_ptr<Transfers> transfers_;  // for the service; null if there is none

    std::mutex mutex_;
    S3Settings settings_;
    Clock::time_point renewed_at_ = Clock::time_point::max();  // when the next renewal begins
    bool is_renewing_ = false, has_failed_ = false;
    std::thread renewal_;
};

}  // namespace hocket::cache
