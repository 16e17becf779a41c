// Records found by key, in one array, so that a lookup costs little more than the one memory access that
// fetches the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cache/memory/residents.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {

struct Record {
    std::shared_ptr<const Segment> segment;
    Entry entry;
};

// Not thread-safe. Linear probing, at most three quarters full. Pointers to records stay valid until the next
// change.
class RecordTable {
  public:
    Record* find(std::uint64_t key) { return const_cast<Record*>(std::as_const(*this).find(key)); }
    const Record* find(std::uint64_t key) const {  // null: not there
        for (std::size_t i = home(key); slots_[i].segment; i = after(i))
            if (slots_[i].entry.key == key) return &slots_[i];
        return nullptr;
    }
    void insert(Record record);        // its key must not be there
    void erase(const Record* record);  // a result of find()

    template <typename Call>
    void for_each(Call call) const {
        for (const Record& slot : slots_)
            if (slot.segment) call(slot);
    }

  private:
    std::size_t home(std::uint64_t key) const { return hash_of(key) & (slots_.size() - 1); }
    std::size_t after(std::size_t i) const { return (i + 1) & (slots_.size() - 1); }
    void place(Record record);

    // The size is a power of two. A slot without a segment is empty.
    std::vector<Record> slots_ = std::vector<Record>(8);
    std::size_t size_ = 0;
};

inline void RecordTable::insert(Record record) {
    if (4 * (size_ + 1) > 3 * slots_.size()) {
        std::vector<Record> old(2 * slots_.size());
        old.swap(slots_);
        for (Record& slot : old)
            if (slot.segment) place(std::move(slot));
    }
    place(std::move(record));
    ++size_;
}

inline void RecordTable::place(Record record) {
    std::size_t i = home(record.entry.key);
    while (slots_[i].segment) i = after(i);
    slots_[i] = std::move(record);
}

// Moves up the records that follow without a gap, unless one would come before its home slot.
inline void RecordTable::erase(const Record* record) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t gap = record - slots_.data();
    for (std::size_t i = after(gap); slots_[i].segment; i = after(i)) {
        if (((i - home(slots_[i].entry.key)) & mask) < ((i - gap) & mask)) continue;
        slots_[gap] = std::move(slots_[i]);
        gap = i;
    }
    slots_[gap] = Record{};
    --size_;
}

}  // namespace hocket::cache
