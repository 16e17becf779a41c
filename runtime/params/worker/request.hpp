// One push, pull or checkpoint of a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/request.hpp"
#include "runtime/params/protocol/message.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

// Some values of a tensor, for a push; all others are 0.
struct SparseUpdate {
    std::span<const std::uint32_t> indices;  // ascending
    const std::byte* values;
};

// A request started by push or pull. Valid until it has been waited for, successfully or not. The client owns
// its contents.
struct ParameterRequest final : Request {
    ParameterRequest() : Request(Type::parameters) {}

    transport::Clock::time_point deadline;
    std::string text;        // describes the request in a deadline's error
    std::uint64_t left = 0;  // chunks that have not arrived; for a push, 1 while there is no room
    Clock room_at = 0;       // for a push: the round that must be covered
    bool has_ended = false;
    transport::Clock::time_point ended_at;
    Status status = Status::success;
    std::string why;
};

}  // namespace hocket::params
