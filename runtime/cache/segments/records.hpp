// Maps the keys of all segments to the locations of their payloads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "runtime/cache/segments/record_table.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {

// Thread-safe. Takes 64 to 128 bytes of memory per record.
class Records {
  public:
    std::optional<Record> find(std::uint64_t key) const;
    bool contains(const Segment& segment, const Entry& entry) const;
    // If the key is there already, the new record waits behind the other one until that is erased.
    void insert(const Record& record);
    bool erase(const Segment& segment, const Entry& entry);  // false: it was not there
    void erase_all(const Segment& segment);

    std::vector<Record> all() const;  // by segment and offset
    std::vector<std::uint64_t> keys() const;
    std::uint64_t count() const { return count_; }  // without waiting records
    std::uint64_t bytes() const { return bytes_; }  // of their payloads

  private:
    struct alignas(64) Shard {
        mutable std::shared_mutex mutex;
        RecordTable first;
        std::unordered_multimap<std::uint64_t, Record> waiting;
    };
    static std::size_t shard_of(std::uint64_t key);
    // The caller of both functions holds the shard's mutex.
    bool erase_first(Shard& shard, std::uint64_t key);
    static bool erase_waiting(Shard& shard, const Segment& segment, const Entry& entry);

    std::array<Shard, 64> shards_;
    std::atomic<std::uint64_t> count_{0}, bytes_{0};
};

}  // namespace hocket::cache
