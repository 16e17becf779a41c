// Ensures that at most one load of a key runs at a time, over all processes with the same folder. For each
// key being loaded, a byte of one of FOLDER/flights.0 to .7 is locked; the kernel unlocks it when the process
// dies. There are several files because the kernel searches all locks of a file for each new one.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// Thread-safe.
class Flights {
  public:
    // dataset: its keys' loads do not exclude those of other datasets in the folder: a load of one may read a
    // sample of another with the same key. If a file cannot be opened, its flights count in this process
    // only.
    Flights(const Files& files, const std::string& folder, const Digest& dataset, bool writable);

    // Returns false if another thread or process loads the key. (Two keys that differ by 2^63 exclude each
    // other.)
    bool begin(std::uint64_t key);
    void end(std::uint64_t key);

  private:
    static constexpr int file_bits = 3;

    std::uint64_t byte_of(std::uint64_t key) const;
    int file_of(std::uint64_t byte) const;

    const Files& files_;
    const std::uint64_t first_byte_;  // of key 0
    std::array<Descriptor, 1 << file_bits> fds_;
    std::mutex mutex_;
    std::unordered_set<std::uint64_t> ours_;  // the kernel does not distinguish the threads of a process
};

}  // namespace hocket::cache
