// Waits for effects of other threads or processes.
#pragma once

#include <chrono>
#include <thread>

namespace hocket::test {

// Returns whether the condition holds, now or at some time before the deadline. The condition is checked
// every millisecond, and the call returns as soon as it holds: only a failing test waits for the deadline.
// The deadline is shorter than that of Processes, so that the test itself can report the failure.
template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds deadline = std::chrono::seconds(15)) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= end) return condition();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace hocket::test
