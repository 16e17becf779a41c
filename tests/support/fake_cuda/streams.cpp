#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "tests/support/fake_cuda/fake.hpp"

namespace fake_cuda {
namespace {

// In microseconds: FAKE_CUDA_DELAY_US is the longest delay of an operation.
unsigned longest_delay() {
    static const unsigned longest = [] {
        const char* given = std::getenv("FAKE_CUDA_DELAY_US");
        return given == nullptr ? 100u : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
    }();
    return longest;
}

unsigned next_seed() {
    static std::atomic<unsigned> seeds{0};
    return 7919 * ++seeds;
}

}  // namespace

void Mark::set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
}

void Mark::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_.load(); });
}

Stream::Stream(Context& of) : context(of), random_(next_seed()), thread_([this] { run(); }) {}

Stream::~Stream() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        changed_.notify_all();
    }
    thread_.join();
}

void Stream::enqueue(std::function<void()> operation) {
    const std::lock_guard lock(mutex_);
    operations_.push_back(std::move(operation));
    changed_.notify_all();
}

void Stream::put(std::function<void()> operation) {
    if (capture)
        capture->nodes.push_back(std::move(operation));
    else
        enqueue(std::move(operation));
}

unsigned long long Capture::next_number() {
    static std::atomic<unsigned long long> last{0};
    return ++last;
}

void Stream::be_late() {
    if (longest_delay() > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % longest_delay()));
}

bool Stream::is_idle() {
    const std::lock_guard lock(mutex_);
    return operations_.empty() && !is_busy_;
}

void Stream::run() {
    for (;;) {
        std::function<void()> operation;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return ends_ || !operations_.empty(); });
            if (operations_.empty()) return;
            operation = std::move(operations_.front());
            operations_.pop_front();
            is_busy_ = true;
        }
        be_late();
        operation();
        operation = nullptr;
        const std::lock_guard lock(mutex_);
        is_busy_ = false;
    }
}

}  // namespace fake_cuda
