#include "runtime/cache/segments/records.hpp"

#include <algorithm>
#include <mutex>
#include <tuple>

namespace hocket::cache {
namespace {

bool is_same(const Record& record, const Segment& segment, const Entry& entry) {
    return record.segment.get() == &segment && record.entry.offset == entry.offset;
}

}  // namespace

std::size_t Records::shard_of(std::uint64_t key) {
    return (key * 0x9e3779b97f4a7c15) >> 58;  // Fibonacci hashing: spreads adjacent keys
}

std::optional<Record> Records::find(std::uint64_t key) const {
    const Shard& shard = shards_[shard_of(key)];
    const std::shared_lock lock(shard.mutex);
    const Record* const found = shard.first.find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

bool Records::contains(const Segment& segment, const Entry& entry) const {
    const Shard& shard = shards_[shard_of(entry.key)];
    const std::shared_lock lock(shard.mutex);
    const Record* const found = shard.first.find(entry.key);
    if (found != nullptr && is_same(*found, segment, entry)) return true;
    const auto [begin, end] = shard.waiting.equal_range(entry.key);
    return std::any_of(begin, end, [&](const auto& each) { return is_same(each.second, segment, entry); });
}

void Records::insert(const Record& record) {
    Shard& shard = shards_[shard_of(record.entry.key)];
    const std::unique_lock lock(shard.mutex);
    if (shard.first.find(record.entry.key) != nullptr) {
        shard.waiting.emplace(record.entry.key, record);
        return;
    }
    shard.first.insert(record);
    ++count_;
    bytes_ += record.entry.bytes;
}

bool Records::erase(const Segment& segment, const Entry& entry) {
    Shard& shard = shards_[shard_of(entry.key)];
    const std::unique_lock lock(shard.mutex);
    const Record* const found = shard.first.find(entry.key);
    if (found != nullptr && is_same(*found, segment, entry)) return erase_first(shard, entry.key);
    return erase_waiting(shard, segment, entry);
}

bool Records::erase_first(Shard& shard, std::uint64_t key) {
    Record* const gone = shard.first.find(key);
    --count_;
    bytes_ -= gone->entry.bytes;
    const auto next = shard.waiting.find(key);
    if (next == shard.waiting.end()) {
        shard.first.erase(gone);
        return true;
    }
    *gone = next->second;
    shard.waiting.erase(next);
    ++count_;
    bytes_ += gone->entry.bytes;
    return true;
}

bool Records::erase_waiting(Shard& shard, const Segment& segment, const Entry& entry) {
    const auto [begin, end] = shard.waiting.equal_range(entry.key);
    const auto found =
        std::find_if(begin, end, [&](const auto& each) { return is_same(each.second, segment, entry); });
    if (found == end) return false;
    shard.waiting.erase(found);
    return true;
}

void Records::erase_all(const Segment& segment) {
    for (Shard& shard : shards_) {
        const std::unique_lock lock(shard.mutex);
        const auto is_of = [&](const Record& record) { return record.segment.get() == &segment; };
        std::erase_if(shard.waiting, [&](const auto& each) { return is_of(each.second); });
        std::vector<std::uint64_t> gone;
        shard.first.for_each([&](const Record& record) {
            if (is_of(record)) gone.push_back(record.entry.key);
        });
        for (const std::uint64_t key : gone) erase_first(shard, key);
    }
}

std::vector<Record> Records::all() const {
    std::vector<Record> all;
    for (const Shard& shard : shards_) {
        const std::shared_lock lock(shard.mutex);
        shard.first.for_each([&](const Record& record) { all.push_back(record); });
        for (const auto& each : shard.waiting) all.push_back(each.second);
    }
    std::sort(all.begin(), all.end(), [](const Record& a, const Record& b) {
        return std::tie(a.segment, a.entry.offset) < std::tie(b.segment, b.entry.offset);
    });
    return all;
}

std::vector<std::uint64_t> Records::keys() const {
    std::vector<std::uint64_t> keys;
    keys.reserve(count_);
    for (const Shard& shard : shards_) {
        const std::shared_lock lock(shard.mutex);
        shard.first.for_each([&](const Record& record) { keys.push_back(record.entry.key); });
    }
    return keys;
}

}  // namespace hocket::cache
