#include "runtime/base/free_ranges.hpp"

#include <iterator>

namespace hocket {

FreeRanges::FreeRanges(std::uint64_t begin, std::uint64_t end) {
    if (begin < end) insert(begin, end - begin);
}

std::optional<std::uint64_t> FreeRanges::allocate(std::uint64_t bytes, std::uint64_t alignment) {
    for (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end(); ++fit) {
        const auto [size, begin] = *fit;
        const std::uint64_t end = begin + size, offset = (begin + alignment - 1) & ~(alignment - 1);
        if (offset > end || end - offset < bytes) continue;
        erase(by_offset_.find(begin));
        if (begin < offset) insert(begin, offset - begin);
        if (offset + bytes < end) insert(offset + bytes, end - offset - bytes);
        return offset;
    }
    return std::nullopt;
}

void FreeRanges::release(std::uint64_t offset, std::uint64_t bytes) {
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second == offset) {
            offset = before->first;
            bytes += before->second;
            erase(before);
        }
    }
    if (after != by_offset_.end() && after->first == offset + bytes) {
        bytes += after->second;
        erase(after);
    }
    insert(offset, bytes);
}

void FreeRanges::insert(std::uint64_t offset, std::uint64_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
    free_bytes_ += bytes;
}

void FreeRanges::erase(std::map<std::uint64_t, std::uint64_t>::iterator range) {
    free_bytes_ -= range->second;
    by_size_.erase({range->second, range->first});
    by_offset_.erase(range);
}

}  // namespace hocket
