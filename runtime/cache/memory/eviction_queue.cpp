#include "runtime/cache/memory/eviction_queue.hpp"

#include <algorithm>

namespace hocket::cache {

void EvictionQueue::push(Resident& resident, std::uint64_t rank) {
    if (resident.rank == rank) return;
    if (nodes_.size() > 2 * size_ + 1024) forget_outdated();
    nodes_.push_back({rank, &resident});
    std::push_heap(nodes_.begin(), nodes_.end());
    if (resident.rank == 0) ++size_;
    resident.rank = rank;
}

void EvictionQueue::drop(Resident& resident) {
    resident.rank = 0;
    --size_;
}

Resident* EvictionQueue::pop(std::uint64_t above) {
    while (!nodes_.empty()) {
        const Node first = nodes_.front();
        if (first.rank <= above) return nullptr;
        pop_node();
        if (!first.is_right()) continue;
        drop(*first.resident);
        return first.resident;
    }
    return nullptr;
}

std::vector<Resident*> EvictionQueue::take_below(std::uint64_t rank) {
    std::vector<Resident*> taken;
    for (const Node& node : nodes_) {
        if (node.rank >= rank || !node.is_right()) continue;
        drop(*node.resident);
        taken.push_back(node.resident);
    }
    return taken;
}

void EvictionQueue::pop_node() {
    std::pop_heap(nodes_.begin(), nodes_.end());
    nodes_.pop_back();
}

void EvictionQueue::forget_outdated() {
    std::erase_if(nodes_, [](const Node& node) { return !node.is_right(); });
    std::make_heap(nodes_.begin(), nodes_.end());
}

}  // namespace hocket::cache
