// An execution plan of MSCCL++, as its JSON describes it, in the same terms for both generations of the
// format.
#pragma once

#include <algorithm>

#include "tools/schedc/imports/algorithm.hpp"

namespace hocket::tools::imports::mscclpp {

// Chunks of a GPU's buffer. Packets carry a flag with each word: who reads them waits until they are there.
struct Region {
    int gpu = 0;
    Chunks chunks;
    bool is_packets = false;
};

// Chunk by chunk: the sources are summed up, if there are several, and go to all targets. A sum is made in
// the first target, and goes on from there.
struct Part {
    std::vector<Region> sources, targets;
    int count = 0;
    int stream = -1;    // a port channel's: the data are on their way when the operation is over
    bool polls = true;  // waits for the packets that it reads
};

// The sizes of a pipeline, from which and from the size of messages its number of rounds comes.
struct Loop {
    int chunks = 0, unit = 0;  // 0: not in a pipeline
    auto operator<=>(const Loop&) const = default;
};

enum class Kind : std::uint8_t { data, nop, signal, wait, flush, barrier, acquire, release };

struct Operation {
    Kind kind = Kind::nop;
    bool is_relaxed = false;                // a signal or a wait that orders no writes
    bool signals = false, flushes = false;  // a put does so, too
    std::vector<Part> parts;
    std::vector<int> streams;  // of signals, waits and flushes: one for each of the first threads
    std::vector<int> semaphores;
    int barrier = 0, participants = 0;
    // It does this part of so many of each of its ranges: threadblocks share the work, or rounds of a loop
    // do.
    int share = 0, shares = 1;
    Loop loop;

    bool has_packets() const {
        const auto is_any = [](const std::vector<Region>& all) {
            return std::ranges::any_of(all, &Region::is_packets);
        };
        return std::ranges::any_of(
            parts, [&](const Part& part) { return is_any(part.sources) || is_any(part.targets); });
    }
};

// One direction of a channel: signals of `from` that `to` waits for.
struct Stream {
    int from = 0, to = 0;
    bool is_port = false;
    int number = 0;  // among those of this kind between the two GPUs
};

struct Plan {
    Algorithm algorithm;
    std::vector<Stream> streams;
    std::vector<std::vector<int>> semaphores;                 // by GPU: their first values
    std::vector<std::vector<std::vector<Operation>>> blocks;  // by GPU
    bool has_loops = false;
    bool is_shift = false;         // its collective is sendrecv
    bool is_old = false;           // the first generation of the format, until MSCCL++ 0.7
    bool doubles_scratch = false;  // launches take turns with its halves
};

// The executor of MSCCL++ has room for so many, in all versions.
inline constexpr int most_lanes = 8, most_semaphores = 16;  // in an operation
inline constexpr int most_channels = 16;                    // of a kind, in a threadblock
inline constexpr int most_barriers = 16, most_threads = 1024;

}  // namespace hocket::tools::imports::mscclpp
