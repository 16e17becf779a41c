// An algorithm of MSCCL, as its XML describes it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/collective.hpp"

namespace hocket::tools::msccl {

enum class Buffer : std::uint8_t { input, output, scratch };

// What a step does, in the order of its letters: receive, reduce (with what src holds), copy (to dst), send.
struct StepType {
    std::string_view name;
    bool receives, reduces, copies, sends;
};
inline constexpr StepType step_types[] = {
    {"s", false, false, false, true},   {"r", true, false, true, false},  {"rcs", true, false, true, true},
    {"rrc", true, true, true, false},   {"rrs", true, true, false, true}, {"rrcs", true, true, true, true},
    {"cpy", false, false, true, false}, {"re", false, true, true, false}, {"nop", false, false, false, false},
};

struct Chunks {
    Buffer buffer = Buffer::input;
    int offset = 0;
};

struct Step {
    const StepType* type = nullptr;
    Chunks src, dst;
    int count = 0;
    int dependency_block = -1, dependency_step = -1;  // of the same GPU; -1: none
    bool is_awaited = false;                          // tells others that it is done
};

struct Threadblock {
    int send = -1, receive = -1;  // the peers; -1: none
    int channel = 0;
    std::vector<Step> steps;
};

struct Gpu {
    int chunks[3] = {};  // of each buffer
    std::vector<Threadblock> blocks;
};

struct Algorithm {
    std::string path, name;
    dsl::Collective collective = dsl::Collective::all_reduce;
    bool in_place = false;
    int root = 0;
    // Into how many chunks x is divided, and each rank's piece of it; 0 pieces: the chunks belong to no rank.
    int chunks = 0, chunks_of_piece = 0;
    int chunks_of_one = 1;  // how many of the file's chunks each of them is
    std::vector<Gpu> gpus;

    int ranks() const { return static_cast<int>(gpus.size()); }
};

// Where something stands in the file. -1: left out.
struct Place {
    int gpu = -1, block = -1, step = -1;
    auto operator<=>(const Place&) const = default;
};

// "gpu 0 tb 1 step 2", short for comments, and ", threadblock 1" in errors.
std::string short_text(const Place& place);

// "i[3]", "s[0 ..< 4]"
std::string text_of(const Chunks& chunks, int count);

// Throws DiagnosticError: "FILE: gpu 0, threadblock 1, step 2: message".
[[noreturn]] void refuse(const Algorithm& algorithm, const Place& place, const std::string& message,
                         const std::string& hint);

}  // namespace hocket::tools::msccl
