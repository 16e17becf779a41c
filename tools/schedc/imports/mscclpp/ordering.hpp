// What signals, waits, nops and semaphores of a plan order while it runs.
#pragma once

#include <deque>
#include <optional>
#include <set>

#include "tools/schedc/imports/mscclpp/knowledge.hpp"
#include "tools/schedc/imports/mscclpp/plan.hpp"

namespace hocket::tools::imports::mscclpp {

// Threadblocks are numbered over all GPUs.
class Ordering {
  public:
    Ordering(const Plan& plan, std::size_t units);

    Knowledge& of(int block) { return knowledge_[block]; }

    // The stream that a wait, or the semaphore that an acquisition waits for; nothing if it can go on.
    std::optional<int> awaited(int gpu, const Operation& op) const;

    // Does an operation that moves nothing, and is no barrier.
    void act(int block, int gpu, const Operation& op);
    // All of these threadblocks have come to their barrier.
    void meet(const std::vector<int>& blocks);

    // Chunks that a thread ("lane") of the threadblock puts into a port channel. They are on their way until
    // a flush or a signal that comes back; signals of the channel come behind them.
    void put(int block, int stream, int lane, int unit);
    void signal(int block, int stream, int lane, bool is_relaxed);
    void flush(int block, int stream, int lane);

  private:
    struct Put {
        int unit = 0, block = 0, lane = 0;
        bool is_settled = false;  // a nop came after it
    };
    struct Signal {
        Snapshot known;
        std::vector<int> units;  // puts that came before it on its channel
        bool is_relaxed = false;
    };

    void settle(int block);
    void wait(int block, int stream, bool is_relaxed);
    void acquire(int block, int gpu, int semaphore);
    // A channel's puts and signals stay in the order in which one thread starts them.
    static bool is_before(const Put& put, int block, int lane) {
        return put.block == block && (put.is_settled || put.lane == lane);
    }

    const Plan& plan_;
    std::vector<Knowledge> knowledge_;                          // by threadblock
    std::vector<std::set<int>> streams_;                        // by threadblock: into which it has put
    std::vector<std::vector<Put>> puts_;                        // by stream: those on their way
    std::vector<std::deque<Signal>> signals_;                   // by stream
    std::vector<std::vector<std::vector<Snapshot>>> releases_;  // by GPU and semaphore
    std::vector<std::vector<int>> acquired_;                    // by GPU and semaphore: how often
};

}  // namespace hocket::tools::imports::mscclpp
