// What a server's shard can be continued from by another process (checkpoint_file.hpp keeps it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

struct CheckpointChunk {
    Clock clock = 0;
    std::vector<std::span<const std::byte>> buffers;  // its weights, then the optimizer's states; borrowed
};

struct Checkpoint {
    std::string job;  // whoever writes it knows what it says
    std::uint32_t incarnation = 0;
    std::map<Worker, Clock> firsts;  // of the members: the first round that each takes part in
    std::vector<CheckpointChunk> chunks;
};

}  // namespace hocket::params
