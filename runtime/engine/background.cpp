#include "runtime/engine/background.hpp"

#include <chrono>
#include <thread>

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;

// How long what was started is left to the thread that started it: most wait at once.
constexpr auto patience = 50us;
// How long, and how often, the thread looks for something new before it sleeps. While there is something all
// the time, no start has to wake it.
constexpr auto lingering = 10ms;
constexpr auto look_again = 200us;

}  // namespace

Background::Background(Progress& progress)
    : progress_(progress), thread_(start_thread("hkt-progress", [this] { run(); })) {}

Background::~Background() {
    is_ending_ = true;
    progress_.leave_alone();
    progress_.call_driver();
    thread_.join();
}

void Background::run() {
    while (wait_for_work()) progress_.drive_what_is_in_flight(is_ending_);
}

// False: the thread is to end.
bool Background::wait_for_work() {
    const auto until = Progress::Clock::now() + lingering;
    while (!progress_.is_left_alone() && !is_ending_)
        if (Progress::Clock::now() < until)
            std::this_thread::sleep_for(look_again);
        else
            progress_.is_left_alone().wait(false);
    if (!is_ending_) std::this_thread::sleep_for(patience);
    return !is_ending_;
}

}  // namespace hocket::engine
