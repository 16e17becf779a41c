// Names statuses in words.
#pragma once

#include "runtime/base/error.hpp"

namespace hocket {

// Returns a text like "peer lost". Static storage.
constexpr const char* text_of(Status status) {
    switch (status) {
        case Status::success:
            return "success";
        case Status::in_progress:
            return "in progress";
        case Status::invalid_argument:
            return "invalid argument";
        case Status::schedule:
            return "schedule refused";
        case Status::not_found:
            return "not found";
        case Status::bootstrap:
            return "bootstrap failed";
        case Status::transport:
            return "transport failed";
        case Status::peer_lost:
            return "peer lost";
        case Status::timeout:
            return "timeout";
        case Status::mismatch:
            return "ranks disagree";
        case Status::out_of_memory:
            return "out of memory";
        case Status::internal:
            return "internal error";
        case Status::io:
            return "input/output failed";
        case Status::limit:
            return "limit exceeded";
        case Status::device:
            return "device failed";
        case Status::aborted:
            return "aborted";
        case Status::interrupted:
            return "interrupted";
    }
    return "unknown status";
}

}  // namespace hocket
