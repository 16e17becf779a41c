// Converts any caught exception into the failure to pass on.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "runtime/base/error.hpp"

namespace hocket {

inline Error error_of(const std::exception& caught) {
    if (const auto* own = dynamic_cast<const Error*>(&caught)) return *own;
    if (dynamic_cast<const std::bad_alloc*>(&caught)) return {Status::out_of_memory, "out of memory"};
    return {Status::internal, std::string("a defect in Hocket, please report it: ") + caught.what()};
}

}  // namespace hocket
