// Answers peers with samples that this process has, or loads from its disk or the source.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/loader.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/peers/questions.hpp"

namespace hocket::cache {

class Server final : public SampleAnswerer {
  public:
    Server(Memory& memory, Loader& loader, Counters& counters)
        : memory_(memory), loader_(loader), counters_(counters) {}

    void question(std::uint64_t key, std::function<void(Answer)> answer) override;
    SampleRoom room(std::uint64_t key, std::uint64_t bytes) override;
    void offered(std::uint64_t key, std::byte* data, std::uint64_t bytes, bool complete,
                 std::function<void(Answer)> answer) override;

  private:
    struct Asked;

    Memory& memory_;
    Loader& loader_;
    Counters& counters_;
    std::mutex mutex_;
    std::map<std::byte*, ArenaBlock> arriving_;  // the blocks of arriving offers
};

}  // namespace hocket::cache
