// Starts whose buffers are lists of tensors that may lie anywhere.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "capi/handles.hpp"
#include "runtime/engine/start/gathered_tensors.hpp"

namespace hocket::capi {

// The buffers that a start works on.
struct StartBuffers {
    const void* send;
    void* recv;
    std::vector<const std::byte*> given;                          // further buffers
    std::unique_ptr<engine::GatheredTensors> gathered = nullptr;  // null if all buffers are the caller's own
};

// lists: as passed to hkt_plan_start_with, with `tensors` pointers each. Copies the lists that are not
// contiguous. Throws Error(invalid_argument: as hocket.h says; out_of_memory, after telling the other ranks).
StartBuffers gather(hkt_plan& plan, const StartBuffers& lists, std::size_t tensors, std::uint64_t count);

}  // namespace hocket::capi
