#include "runtime/engine/progress/background.hpp"

#include <chrono>
#include <thread>

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

// For so long an operation is left to the thread that started it, because most threads wait for it at once.
// While that thread starts one operation after another, the time doubles.
constexpr auto first_patience = 100us, longest_patience = 3200us;
// How long, and how often, the thread looks for new operations before it sleeps. While they keep coming, no
// start has to wake it.
constexpr auto lingering = 10ms;
constexpr auto look_again = 200us;

}  // namespace

Background::Background(Progress& progress)
    : progress_(progress),
      left_alone_(progress.left_alone()),
      thread_(start_thread("hkt-progress", [this] { run(); })) {}

Background::~Background() {
    is_ending_ = true;
    left_alone_.wake();
    progress_.call_driver();
    thread_.join();
}

void Background::run() {
    while (!is_ending_) {
        wait_for_work();
        if (needs_help()) progress_.drive_what_is_in_flight(is_ending_);
    }
}

void Background::wait_for_work() const {
    const auto until = Progress::Clock::now() + lingering;
    while (!left_alone_.is_any() && !is_ending_)
        if (Progress::Clock::now() < until)
            std::this_thread::sleep_for(look_again);
        else
            left_alone_.wait();
}

// Returns true if an operation is still in flight and no new one has been started meanwhile.
bool Background::needs_help() const {
    for (std::chrono::microseconds patience = first_patience; patience <= longest_patience; patience *= 2) {
        const std::uint64_t before = left_alone_.starts();
        std::this_thread::sleep_for(patience);
        if (!left_alone_.is_any() || is_ending_) return false;
        if (left_alone_.starts() == before) break;
    }
    return true;
}

}  // namespace hocket::engine
