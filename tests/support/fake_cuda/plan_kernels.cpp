// Runs the twins of plans' kernels: each thread of each block is a thread of the process.
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>

#include "runtime/compute/jit/device_image.hpp"
#include "tests/support/fake_cuda/fake.hpp"

namespace fake_cuda {
namespace {

namespace jit = hocket::jit;

std::mutex mutex;
std::set<const PlanModule*> modules;
std::atomic<unsigned long long> by_packets = 0;

struct Thread : jit::TwinThread {
    std::barrier<>* of_block = nullptr;
};

void wait_for_block(const jit::TwinThread* thread) {
    static_cast<const Thread*>(thread)->of_block->arrive_and_wait();
}

std::uint64_t now(const jit::TwinThread*) {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count());
}

// Sleeping gets the processor back sooner than yielding, where other programs want it, too.
void give_way(const jit::TwinThread*) {
    std::this_thread::sleep_for(std::chrono::microseconds(5));
}

}  // namespace

int capability() {
    const char* given = std::getenv("FAKE_CUDA_CAPABILITY");
    return given == nullptr ? 0 : std::atoi(given);
}

int load_plan(const char* image, Context& context, PlanModule*& module) {
    if (std::strncmp(image, jit::twin_image, std::strlen(jit::twin_image)) != 0) return invalid_image;
    const auto address = std::strtoull(image + std::strlen(jit::twin_image), nullptr, 16);
    module = new PlanModule{reinterpret_cast<void (*)()>(static_cast<std::uintptr_t>(address)), &context};
    const std::lock_guard lock(mutex);
    modules.insert(module);
    return success;
}

int unload_plan(PlanModule* module) {
    const std::lock_guard lock(mutex);
    if (modules.erase(module) == 0) return invalid_handle;
    if (module->runs > 0) fault("a module is unloaded while its kernel runs");
    delete module;
    return success;
}

bool is_plan(const PlanModule* module) {
    const std::lock_guard lock(mutex);
    return modules.count(module) != 0;
}

unsigned long long runs_by_packets() {
    return by_packets;
}

void run_plan(PlanModule& module, unsigned blocks, unsigned threads, unsigned long long arguments) {
    ++module.runs;
    struct Block {
        explicit Block(unsigned threads) : barrier(threads) {}
        std::barrier<> barrier;
        std::uint64_t shared[jit::shared_words];
    };
    std::deque<Block> all;
    std::deque<Thread> own;
    std::vector<std::thread> running;
    const auto code = reinterpret_cast<jit::TwinCode>(module.code);
    const auto* const given = reinterpret_cast<const jit::DeviceArguments*>(arguments);
    if (given->packets > 0) ++by_packets;
    for (unsigned block = 0; block < blocks; ++block) {
        Block& at = all.emplace_back(threads);
        std::memset(at.shared, 0xdb, sizeof at.shared);
        for (unsigned thread = 0; thread < threads; ++thread) {
            Thread& one = own.emplace_back();
            static_cast<jit::TwinThread&>(one) = {.thread = thread,
                                                  .threads = threads,
                                                  .blocks = blocks,
                                                  .shared = at.shared,
                                                  .barrier = wait_for_block,
                                                  .now = now,
                                                  .pause = give_way,
                                                  .touch = nullptr};
            one.of_block = &at.barrier;
            running.emplace_back([code, given, &one] {
                code(given, &one);
                one.of_block->arrive_and_drop();
            });
        }
    }
    for (std::thread& thread : running) thread.join();
    --module.runs;
}

}  // namespace fake_cuda
