#include "runtime/device/mappings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace hocket::device {
namespace {

// Compares the numbers too: memory that was freed and allocated anew may be at the same address.
bool is_same(const Exported& one, const Exported& other) {
    return one.process == other.process && one.begin == other.begin && one.bytes == other.bytes &&
           one.number == other.number &&
           std::memcmp(one.handle.bytes, other.handle.bytes, sizeof one.handle.bytes) == 0;
}

bool overlap(const Exported& one, const Exported& other) {
    return one.process == other.process && one.begin < other.begin + other.bytes &&
           other.begin < one.begin + one.bytes;
}

}  // namespace

Mappings::Mapping* Mappings::open(const Exported& exported, const std::string& doing) {
    if (exported.process == getpid()) return nullptr;
    const auto known = std::find_if(open_.begin(), open_.end(),
                                    [&](const Mapping& mapping) { return is_same(mapping.of, exported); });
    if (known != open_.end()) {
        open_.splice(open_.end(), open_, known);
    } else {
        drop_stale(exported, doing);
        make_room(doing);
        DevicePointer begin = 0;
        const int result =
            driver_.ipc_open_handle(&begin, exported.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (cannot_share(result)) return nullptr;
        driver_.require(result, "cuIpcOpenMemHandle", doing);
        open_.push_back({exported, begin, 0});
    }
    ++open_.back().users;
    return &open_.back();
}

// Closes allocations that the owner has freed, whose addresses the exported one now covers.
void Mappings::drop_stale(const Exported& exported, const std::string& doing) {
    for (auto next = open_.begin(); next != open_.end();) {
        const auto mapping = next++;
        if (mapping->users == 0 && overlap(mapping->of, exported)) close(mapping, doing);
    }
}

// What is in use stays open, however much that is: a start of many ranks needs several of each.
void Mappings::make_room(const std::string& doing) {
    while (open_.size() >= most) {
        const auto oldest = std::find_if(open_.begin(), open_.end(),
                                         [](const Mapping& mapping) { return mapping.users == 0; });
        if (oldest == open_.end()) return;
        close(oldest, doing);
    }
}

void Mappings::close(std::list<Mapping>::iterator mapping, const std::string& doing) {
    const DevicePointer begin = mapping->begin;
    open_.erase(mapping);
    driver_.require(driver_.ipc_close_handle(begin), "cuIpcCloseMemHandle", doing);
}

void Mappings::close_all() noexcept {
    for (const Mapping& mapping : open_)
        if (mapping.users == 0) driver_.ipc_close_handle(mapping.begin);
    open_.remove_if([](const Mapping& mapping) { return mapping.users == 0; });
}

}  // namespace hocket::device
