// An algorithm of MSCCL, as its XML describes it.
#pragma once

#include "tools/schedc/imports/algorithm.hpp"

namespace hocket::tools::imports::msccl {

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

struct XmlStep {
    const StepType* type = nullptr;
    Chunks src, dst;
    int count = 0;
    int dependency_block = -1, dependency_step = -1;  // of the same GPU; -1: none
    bool is_awaited = false;                          // tells others that it is done
};

struct Threadblock {
    int send = -1, receive = -1;  // the peers; -1: none
    int channel = 0;
    std::vector<XmlStep> steps;
};

struct Program {
    Algorithm algorithm;
    std::vector<std::vector<Threadblock>> blocks;  // by GPU
};

}  // namespace hocket::tools::imports::msccl
