// One push, pull or checkpoint of a worker.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/request.hpp"
#include "runtime/params/protocol/message.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

// What push and pull have started. It is used until it is waited for, successfully or not; then it is gone.
// What it holds is the client's.
struct ParameterRequest final : Request {
    ParameterRequest() : Request(Type::parameters) {}

    transport::Clock::time_point deadline;
    std::string text;        // what it is, for the text about a deadline
    std::uint64_t left = 0;  // chunks that have not come; for a push 1: there is no room yet
    Clock room_at = 0;       // a push: the round that must be covered
    bool has_ended = false;
    transport::Clock::time_point ended_at;
    Status status = Status::success;
    std::string why;
};

}  // namespace hocket::params
