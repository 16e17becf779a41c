// Queues by tag. Entries with the same tag come out in the order in which they went in.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hocket::engine {

template <typename Entry>
class TagQueues {
  public:
    void push(int tag, Entry entry) {
        queues_[tag].push_back(std::move(entry));
        ++size_;
    }

    // Returns the first entry with that tag; null if there is none. Valid until the next call.
    const Entry* front(int tag) const {
        const auto found = queues_.find(tag);
        return found == queues_.end() || found->second.empty() ? nullptr : &found->second.front();
    }

    // Removes and returns the first entry with that tag.
    std::optional<Entry> pop(int tag) {
        const auto found = queues_.find(tag);
        if (found == queues_.end() || found->second.empty()) return std::nullopt;  // empty: a push has failed
        std::optional<Entry> first(std::move(found->second.front()));
        found->second.pop_front();
        if (found->second.empty()) queues_.erase(found);  // a program may use each tag once only
        --size_;
        return first;
    }

    // Returns the tags that have entries, in no particular order.
    std::vector<int> tags() const {
        std::vector<int> tags;
        for (const auto& [tag, queue] : queues_)
            if (!queue.empty()) tags.push_back(tag);
        return tags;
    }

    std::size_t size() const { return size_; }
    void clear() { queues_.clear(), size_ = 0; }

  private:
    std::unordered_map<int, std::deque<Entry>> queues_;
    std::size_t size_ = 0;
};

}  // namespace hocket::engine
