// What a rank that fails tells the others, as a text for transport::Bootstrap::report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/error.hpp"

namespace hocket::engine {

struct Notice {
    Status status = Status::internal;
    std::int64_t number = -1;  // of the operation in which it failed; -1: it was between operations
    std::string operation;     // that operation: "all_reduce #3 (ring on 4, float32 sum, 1000 elements)"
    std::string text;          // what is wrong, as the rank's own caller is told, without the hints
};

// The text comes last, so that a limit on the length cuts off nothing else.
std::string encode(const Notice& notice);

// Never throws: what cannot be read is a notice of an internal error.
Notice decode_notice(std::string_view encoded);

}  // namespace hocket::engine
