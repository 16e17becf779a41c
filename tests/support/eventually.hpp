// Waiting for what other threads or processes bring about.
#pragma once

#include <chrono>
#include <thread>

namespace hocket::test {

// Whether the condition holds, now or at some time before the deadline. It is looked at every millisecond,
// and a test goes on as soon as it holds: the deadline is only for what never comes. It is shorter than that
// of Processes, so that the test itself can say what did not come.
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
