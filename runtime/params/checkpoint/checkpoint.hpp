// The state from which another process can continue a server's shard (checkpoint_file.hpp stores it).
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
    std::string job;  // opaque here: interpreted by the caller that writes it
    std::uint32_t incarnation = 0;
    std::map<Worker, Clock> firsts;  // by member: the first round that it takes part in
    std::vector<CheckpointChunk> chunks;
};

}  // namespace hocket::params
