// Which reads and writes are over when an operation of MSCCL++ begins, and which writes can be seen.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "tools/schedc/imports/clocks.hpp"

namespace hocket::tools::imports::mscclpp {

// Of each chunk of each data operation, counted over all of them ("units").
inline constexpr int is_over = 1;  // its reads are; its writes need not be seen by others
inline constexpr int is_seen = 2;

using Snapshot = std::shared_ptr<const Clock>;
using OverUnits = std::shared_ptr<const std::vector<bool>>;

// What the threads of a threadblock know. Between two nops, threads do not wait for each other: an operation
// knows what came before the last nop, and nothing of what the threadblock has done since.
class Knowledge {
  public:
    explicit Knowledge(std::size_t units) : settled_(std::make_shared<Clock>(units)), pending_(units) {}

    const Snapshot& settled() const { return settled_; }

    // Known to all threads from the next nop on.
    void add(int unit, int how) { pending_[unit] = std::max(pending_[unit], how); }
    void add(const Clock& other) { join(pending_, other); }

    void settle() {
        join(pending_, *settled_);
        settled_ = std::make_shared<const Clock>(pending_);
    }

    // At the end of the kernel.
    Clock all() const {
        Clock result = pending_;
        join(result, *settled_);
        return result;
    }

  private:
    Snapshot settled_;
    Clock pending_;
};

// A relaxed signal and a packet's flag tell that earlier reads are over: nothing tells that earlier writes
// are seen.
inline void join_reads(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < clock.size(); ++i)
        if (clock[i] == 0 && other[i] > 0) clock[i] = is_over;
}

inline OverUnits over_units(const Clock& clock) {
    auto result = std::make_shared<std::vector<bool>>(clock.size());
    for (std::size_t i = 0; i < clock.size(); ++i) (*result)[i] = clock[i] > 0;
    return result;
}

// Packets by their places. Who reads one knows what its writer knew, word by word.
class Packets {
  public:
    bool are_there(int slot) const { return packets_.contains(slot); }

    // Packets of this value are there; several threadblocks may write the same.
    bool has_value(int slot, int value) const { return packets_.at(slot).value == value; }

    // `known`: its writer's clock. `by_packets`: units that are over, because the packets that it was made of
    // are there; perhaps null.
    void add(int slot, int value, int unit, Snapshot known, OverUnits by_packets) {
        Packet& packet = packets_[slot];
        packet.value = value;
        packet.units.push_back(unit);
        packet.known = std::move(known);
        packet.by_packets = std::move(by_packets);
    }

    // True if one that has written them is over.
    bool are_known(int slot, const Clock& clock) const {
        const Packet& packet = packets_.at(slot);
        return std::ranges::any_of(packet.units, [&](int unit) { return clock[unit] > 0; });
    }

    void join(Clock& clock, int slot) const {
        const Packet& packet = packets_.at(slot);
        // Of several writers, nobody knows whose packets were there.
        if (packet.units.size() > 1 || clock[packet.units[0]] > 0) return;
        clock[packet.units[0]] = is_over;
        join_reads(clock, *packet.known);
        if (!packet.by_packets) return;
        for (std::size_t i = 0; i < clock.size(); ++i)
            if (clock[i] == 0 && (*packet.by_packets)[i]) clock[i] = is_over;
    }

  private:
    struct Packet {
        int value = 0;
        std::vector<int> units;
        Snapshot known;
        OverUnits by_packets;
    };
    std::map<int, Packet> packets_;
};

}  // namespace hocket::tools::imports::mscclpp
