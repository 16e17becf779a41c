// Waits that a program may interrupt.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "capi/handles.hpp"
#include "runtime/base/error.hpp"

namespace hocket::capi {

// wait_until(T) waits until T and returns a value that is true if the operation has ended. Between such
// waits, the program is asked whether to go on. what_goes_on: ends the error's text if the program interrupts
// the wait.
template <typename WaitUntil>
auto wait_unless_interrupted(
    const char* function, const Interruption& interruption, std::chrono::steady_clock::time_point until,
    WaitUntil wait_until,
    const char* what_goes_on = "the operation goes on, and its request can be waited for again") {
    if (interruption.is_interrupted == nullptr) return wait_until(until);
    for (;;) {
        const auto now = std::chrono::steady_clock::now(),
                   next = std::min(until, now + Interruption::asked_every);
        auto ended = wait_until(next);
        if (ended || next <= now) return ended;
        if (interruption.is_interrupted(interruption.user) != 0)
            throw Error(Status::interrupted, fmt::format("{}: {} has ended the wait; {}", function,
                                                         interruption.name, what_goes_on));
    }
}

}  // namespace hocket::capi
