// Refusals of calls that have no communicator.
#pragma once

#include <hocket.h>

#include <string>

#include "tests/support/test.hpp"

namespace hocket::test {

inline void refused(hkt_status status, const std::string& words) {
    INFO(hkt_last_error());
    CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Catch::Contains(words));
}

}  // namespace hocket::test
