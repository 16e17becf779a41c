// Starts whose buffers are lists of tensors that may lie anywhere.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "capi/handles.hpp"
#include "runtime/engine/start/gathered_tensors.hpp"

namespace hocket::capi {

// What a start works on.
struct StartBuffers {
    const void* send;
    void* recv;
    std::vector<const std::byte*> given;                          // further buffers
    std::unique_ptr<engine::GatheredTensors> gathered = nullptr;  // if not all of them are the caller's
};

// lists: as hkt_plan_start_with is given them, with `tensors` pointers each. Copies what does not lie
// together. Throws Error(invalid_argument: as hocket.h says; out_of_memory, of which the other ranks were
// told).
StartBuffers gather(hkt_plan& plan, const StartBuffers& lists, std::size_t tensors, std::uint64_t count);

}  // namespace hocket::capi
