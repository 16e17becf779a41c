#include "tests/runtime/compute/jit/race_watcher.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::test {

void RaceWatcher::join(Clock& to, const Clock& from) {
    for (const auto& [agent, time] : from) to[agent] = std::max(to[agent], time);
}

void RaceWatcher::begin(Agent agent, Agent earlier) {
    const std::lock_guard lock(mutex_);
    Clock& before = clocks_[earlier];
    ++before[earlier];
    const Clock copy = before;
    Clock& own = clocks_[agent];
    join(own, copy);
    ++own[agent];
}

std::uint64_t RaceWatcher::time_of(Agent agent) {
    std::uint64_t& time = clocks_[agent][agent];
    if (time == 0) time = 1;
    return time;
}

bool RaceWatcher::is_behind(Agent agent, Agent other, std::uint64_t time) {
    return agent == other || clocks_[agent][other] >= time;
}

void RaceWatcher::note_race(const char* what, Agent agent, Agent other) {
    if (race_.empty()) race_ = fmt::format("agent {} {} agent {}", agent, what, other);
}

void RaceWatcher::read(Agent agent, const void* memory, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* const first = static_cast<const std::byte*>(memory);
    for (const std::byte* at = first; at < first + bytes; ++at) {
        Byte& byte = bytes_[at];
        if (byte.written != 0 && !is_behind(agent, byte.writer, byte.written))
            note_race("reads what is written at the same time by", agent, byte.writer);
        byte.reads[agent] = time_of(agent);
    }
}

void RaceWatcher::write(Agent agent, const void* memory, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* const first = static_cast<const std::byte*>(memory);
    for (const std::byte* at = first; at < first + bytes; ++at) {
        Byte& byte = bytes_[at];
        if (byte.written != 0 && !is_behind(agent, byte.writer, byte.written))
            note_race("writes at the same time as", agent, byte.writer);
        for (const auto& [reader, time] : byte.reads)
            if (!is_behind(agent, reader, time))
                note_race("writes what is read at the same time by", agent, reader);
        byte.reads.clear();
        byte.writer = agent;
        byte.written = time_of(agent);
    }
}

void RaceWatcher::release(Agent agent, const void* word, std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    words_[{word, sequence}] = clocks_[agent];
    ++clocks_[agent][agent];
}

void RaceWatcher::acquire(Agent agent, const void* word, std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    join(clocks_[agent], words_[{word, sequence}]);
}

void RaceWatcher::arrive(Agent agent, const void* block, std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    join(barriers_[{block, n}], clocks_[agent]);
    ++clocks_[agent][agent];
}

void RaceWatcher::leave(Agent agent, const void* block, std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    join(clocks_[agent], barriers_[{block, n}]);
}

void RaceWatcher::end_block(const void* block) {
    const std::lock_guard lock(mutex_);
    std::erase_if(barriers_, [&](const auto& barrier) { return barrier.first.first == block; });
}

std::string RaceWatcher::race() const {
    const std::lock_guard lock(mutex_);
    return race_;
}

}  // namespace hocket::test
