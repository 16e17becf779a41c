// One load of a key at a time, over all processes with the same folder: a byte of FOLDER/flights is locked
// for each key that is being loaded, and the kernel unlocks it when its process dies.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>

#include "runtime/cache/descriptor.hpp"
#include "runtime/cache/files.hpp"

namespace hocket::cache {

// Thread-safe.
class Flights {
  public:
    // Where the file cannot be had, flights are of this process alone.
    Flights(const Files& files, const std::string& folder, bool writable);

    // False: another thread or process is at it. (Two keys that differ by 2^63 hinder each other.)
    bool begin(std::uint64_t key);
    void end(std::uint64_t key);

  private:
    const Files& files_;
    Descriptor fd_;
    std::mutex mutex_;
    std::unordered_set<std::uint64_t> ours_;  // the kernel does not keep threads apart
};

}  // namespace hocket::cache
