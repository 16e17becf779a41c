// A failing rank's notice to the others, as a text for transport::Bootstrap::report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace hocket::engine {

struct Notice {
    Status status = Status::internal;
    std::int64_t number = -1;  // the operation in which it failed; -1: between operations
    std::string operation;     // that operation: "all_reduce #3 (ring on 4, float32 sum, 1000 elements)"
    std::string details;       // distinguishes it from others with these words
    std::string text;          // the failure, in the words for this rank's caller, without the hints
};

// The text comes last, so that a limit on the length truncates only the text.
std::string encode(const Notice& notice);

// Never throws: a text that cannot be decoded is a notice of an internal error.
Notice decode_notice(std::string_view encoded);

}  // namespace hocket::engine
