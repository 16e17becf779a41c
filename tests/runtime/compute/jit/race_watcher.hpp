// Finds accesses to the same memory that nothing orders, by vector clocks: two threads must not touch the
// same byte, one of them writing, unless a chain of barriers, signals and ends of kernels lies between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace hocket::test {

// Thread-safe. An agent is a thread of a block, or the stream of a rank.
class RaceWatcher {
  public:
    using Agent = std::size_t;
    using Clock = std::map<Agent, std::uint64_t>;

    // The agent starts behind everything that `earlier` has done, or that has been done for it.
    void begin(Agent agent, Agent earlier);
    // `later` comes behind everything that the agent has done.
    void end(Agent agent, Agent later) { begin(later, agent); }

    void read(Agent agent, const void* memory, std::uint64_t bytes);
    void write(Agent agent, const void* memory, std::uint64_t bytes);
    // Of the value `sequence` of a word.
    void release(Agent agent, const void* word, std::uint64_t sequence);
    void acquire(Agent agent, const void* word, std::uint64_t sequence);

    // The agent arrives at its n-th barrier with others; and leaves it.
    void arrive(Agent agent, const void* block, std::uint64_t n);
    void leave(Agent agent, const void* block, std::uint64_t n);
    // A later block may have the same address, and is not behind the barriers of this one.
    void end_block(const void* block);

    // Returns the first race, or "".
    std::string race() const;

  private:
    struct Byte {
        Agent writer = 0;
        std::uint64_t written = 0;  // the writer's time; 0: never
        Clock reads;
    };

    static void join(Clock& to, const Clock& from);
    std::uint64_t time_of(Agent agent);  // from 1
    // Returns true if the agent comes behind what another did at that time.
    bool is_behind(Agent agent, Agent other, std::uint64_t time);
    void note_race(const char* what, Agent agent, Agent other);

    mutable std::mutex mutex_;
    std::unordered_map<Agent, Clock> clocks_;
    std::unordered_map<const std::byte*, Byte> bytes_;
    std::map<std::pair<const void*, std::uint64_t>, Clock> words_, barriers_;
    std::string race_;
};

}  // namespace hocket::test
