// A child that goes on with the test's objects, as if it were the test's own process.
#pragma once

#include <unistd.h>

#include "runtime/base/forks.hpp"

namespace hocket::test {

inline pid_t fork_to_go_on() {
    const forks::ChildrenGoOn go_on;
    return fork();
}

}  // namespace hocket::test
