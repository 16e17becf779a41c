#include "tests/support/simt.hpp"

#include <fmt/format.h>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace hocket::simt {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024;
constexpr unsigned most_resident = 4, lanes = 32;   // blocks; threads of a warp
constexpr std::size_t most_idle_steps = 8'000'000;  // of a wait that nothing ends

struct Cancelled {};  // ends a thread of a launch that has failed

// Tells the address sanitizer that the stack changes.
struct StackOfScheduler {
    const void* bottom = nullptr;
    std::size_t size = 0;
};
#if defined(__SANITIZE_ADDRESS__)
void leave(void** own, const void* bottom, std::size_t size) {
    __sanitizer_start_switch_fiber(own, bottom, size);
}
void arrive(void* own, const void** bottom, std::size_t* size) {
    __sanitizer_finish_switch_fiber(own, bottom, size);
}
#else
void leave(void**, const void*, std::size_t) {}
void arrive(void*, const void**, std::size_t*) {}
#endif

// A fiber that runs one job after another.
class Worker {
  public:
    Worker() : stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)) {
        boost::context::stack_context context;
        context.size = stack_bytes;
        context.sp = stack_.get() + stack_bytes;
        fiber_ = boost::context::fiber(std::allocator_arg,
                                       boost::context::preallocated(context.sp, context.size, context),
                                       NoRelease{}, [this](boost::context::fiber&& scheduler) {
                                           arrive(nullptr, &scheduler_stack_.bottom, &scheduler_stack_.size);
                                           scheduler_ = std::move(scheduler);
                                           for (;;) {
                                               job();
                                               suspend();
                                           }
                                           return std::move(scheduler_);
                                       });
    }

    // The scheduler's side, and the fiber's.
    void resume() {
        void* own = nullptr;
        leave(&own, stack_.get(), stack_bytes);
        fiber_ = std::move(fiber_).resume();
        arrive(own, nullptr, nullptr);
    }
    void suspend() {
        void* own = nullptr;
        leave(&own, scheduler_stack_.bottom, scheduler_stack_.size);
        scheduler_ = std::move(scheduler_).resume();
        arrive(own, &scheduler_stack_.bottom, &scheduler_stack_.size);
    }

    std::function<void()> job;

  private:
    struct NoRelease {
        boost::context::stack_context allocate() { return {}; }
        void deallocate(boost::context::stack_context&) {}
    };

    std::unique_ptr<std::byte[]> stack_;
    StackOfScheduler scheduler_stack_;
    boost::context::fiber fiber_, scheduler_;
};

// Kept for the launches to come, and never destroyed: that would switch stacks when the process ends.
std::vector<std::unique_ptr<Worker>>& idle_workers() {
    static auto* workers = new std::vector<std::unique_ptr<Worker>>;
    return *workers;
}

struct Block;
struct Thread {
    enum class State : std::uint8_t { runs, at_barrier, at_warp_operation, ended };
    Block* block;
    unsigned index;
    std::unique_ptr<Worker> worker;
    State state = State::runs;
    Place place;
    std::uint64_t value = 0, result = 0;  // of a warp operation
    unsigned argument = 0;
};

// Lanes of a warp that wait for each other.
struct Meeting {
    Operation operation;
    unsigned mask, arrived;
};

struct SharedVariable {
    const void* variable;
    std::unique_ptr<std::byte[]> memory;
};

struct Block {
    unsigned index;
    std::vector<Thread> threads;
    std::vector<std::vector<Meeting>> meetings;  // of each warp
    unsigned at_barrier = 0, ended = 0;
    Place barrier;  // where those at the barrier are
    std::vector<SharedVariable> shared;
};

std::string text_of(const Place& place) {
    const std::string_view path = place.file_name();
    return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), place.line());
}

bool is_same(const Place& a, const Place& b) {
    return a.line() == b.line() && (a.file_name() == b.file_name() || text_of(a) == text_of(b));
}

std::mt19937_64 generator;

class Launch {
  public:
    Launch(unsigned blocks, unsigned threads, const std::function<void()>& kernel)
        : threads_(threads), kernel_(kernel), order_(blocks), resident_(1 + generator() % most_resident) {
        std::iota(order_.begin(), order_.end(), 0u);
        std::shuffle(order_.begin(), order_.end(), generator);
        blockDim = {threads};
        gridDim = {blocks};
    }

    void run();

    // Threads call these; `current` is the calling thread.
    void wait_for_block(Place place);
    std::uint64_t wait_for_warp(Operation operation, unsigned mask, std::uint64_t value, unsigned argument,
                                Place place);
    void let_others_run(bool always);
    void note_progress() { idle_steps_ = 0; }
    std::byte* shared_memory(const void* variable, std::size_t bytes);

  private:
    void start_block();
    void run_thread(Thread& thread);
    void end_thread(Thread& thread);
    void suspend();
    void cancel();
    void fail(const std::string& what) { throw Error(what); }
    std::string waiting() const;
    void complete(Block& block, unsigned warp, const Meeting& meeting);

    const unsigned threads_;
    const std::function<void()>& kernel_;
    std::vector<unsigned> order_;  // of the blocks that have not started, the next one last
    const std::size_t resident_;
    std::vector<std::unique_ptr<Block>> blocks_;
    std::vector<Thread*> runnable_;
    Thread* current_ = nullptr;
    std::size_t idle_steps_ = 0;
    std::optional<std::string> failure_;
};

Launch* running = nullptr;

void Launch::start_block() {
    auto block = std::make_unique<Block>();
    block->index = order_.back();
    order_.pop_back();
    block->meetings.resize((threads_ + lanes - 1) / lanes);
    block->threads.resize(threads_);
    for (unsigned index = 0; index < threads_; ++index) {
        Thread& thread = block->threads[index];
        thread.block = block.get();
        thread.index = index;
        auto& idle = idle_workers();
        if (idle.empty()) idle.push_back(std::make_unique<Worker>());
        thread.worker = std::move(idle.back());
        idle.pop_back();
        thread.worker->job = [this, &thread] {
            try {
                if (failure_) throw Cancelled{};
                kernel_();
                end_thread(thread);
            } catch (const Cancelled&) {
            } catch (const std::exception& error) {
                if (!failure_) failure_ = error.what();
            }
            thread.state = Thread::State::ended;
        };
        runnable_.push_back(&thread);
    }
    blocks_.push_back(std::move(block));
    note_progress();
}

void Launch::run() {
    while (!failure_) {
        if (!order_.empty() && blocks_.size() < resident_ && (runnable_.empty() || generator() % 64 == 0))
            start_block();
        if (runnable_.empty()) {
            if (blocks_.empty() && order_.empty()) return;
            if (blocks_.size() < resident_ && !order_.empty()) continue;
            failure_ = "no thread can go on: " + waiting();
            break;
        }
        if (++idle_steps_ > most_idle_steps) {
            failure_ = fmt::format(
                "a wait does not end: {} of {} blocks have not started, and those that run "
                "wait for something that none of them does",
                order_.size(), gridDim.x);
            break;
        }
        std::swap(runnable_[generator() % runnable_.size()], runnable_.back());
        Thread& thread = *runnable_.back();
        runnable_.pop_back();
        run_thread(thread);
    }
    cancel();
    throw Error(*failure_);
}

void Launch::run_thread(Thread& thread) {
    current_ = &thread;
    threadIdx = {thread.index};
    blockIdx = {thread.block->index};
    thread.worker->resume();
    if (thread.state != Thread::State::ended) return;
    idle_workers().push_back(std::move(thread.worker));
    Block* block = thread.block;
    if (++block->ended == threads_)
        std::erase_if(blocks_, [&](const auto& one) { return one.get() == block; });
}

void Launch::end_thread(Thread& thread) {
    note_progress();
    const Block& block = *thread.block;
    if (block.at_barrier > 0)
        fail(fmt::format("block {}: {} of {} threads wait at __syncthreads ({}), but thread {} has ended",
                         block.index, block.at_barrier, threads_, text_of(block.barrier), thread.index));
    for (const Meeting& meeting : block.meetings[thread.index / lanes])
        if (meeting.mask >> thread.index % lanes & 1)
            fail(fmt::format("block {}: thread {} has ended, but lanes of its warp wait for it (mask {:08x})",
                             block.index, thread.index, meeting.mask));
}

// Every thread that has started ends, so that its stack holds nothing when it is used again.
void Launch::cancel() {
    while (!blocks_.empty()) {
        std::vector<Thread*> threads;
        for (Thread& thread : blocks_.back()->threads)
            if (thread.state != Thread::State::ended) threads.push_back(&thread);
        for (Thread* thread : threads) run_thread(*thread);
    }
}

void Launch::suspend() {
    current_->worker->suspend();
    if (failure_) throw Cancelled{};
}

// The number of waiting threads by place, and one of them.
std::string Launch::waiting() const {
    std::string text;
    for (const auto& block : blocks_) {
        std::map<std::string, std::pair<std::size_t, unsigned>> places;
        for (const Thread& thread : block->threads) {
            if (thread.state == Thread::State::ended) continue;
            const bool at_barrier = thread.state == Thread::State::at_barrier;
            auto& [threads, one] = places[fmt::format(
                "{} ({})", at_barrier ? "__syncthreads" : "a warp operation", text_of(thread.place))];
            ++threads;
            one = thread.index;
        }
        for (const auto& [place, threads] : places)
            text += fmt::format("{}in block {} {} threads, one of them {}, wait at {}",
                                text.empty() ? "" : "; ", block->index, threads.first, threads.second, place);
    }
    return text;
}

void Launch::wait_for_block(Place place) {
    if (failure_) throw Cancelled{};
    Thread& self = *current_;
    Block& block = *self.block;
    if (block.ended > 0)
        for (const Thread& other : block.threads)
            if (other.state == Thread::State::ended)
                fail(fmt::format("block {}: thread {} waits at __syncthreads ({}), but thread {} has ended",
                                 block.index, self.index, text_of(place), other.index));
    if (block.at_barrier == 0) block.barrier = place;
    if (!is_same(place, block.barrier))
        fail(fmt::format("block {}: thread {} is at another __syncthreads ({}) than others of its block ({})",
                         block.index, self.index, text_of(place), text_of(block.barrier)));
    self.state = Thread::State::at_barrier;
    self.place = place;
    if (++block.at_barrier < threads_) return suspend();
    block.at_barrier = 0;
    note_progress();
    for (Thread& thread : block.threads) {
        thread.state = Thread::State::runs;
        if (&thread != &self) runnable_.push_back(&thread);
    }
}

std::uint64_t Launch::wait_for_warp(Operation operation, unsigned mask, std::uint64_t value,
                                    unsigned argument, Place place) {
    if (failure_) throw Cancelled{};
    Thread& self = *current_;
    Block& block = *self.block;
    const unsigned warp = self.index / lanes, lane = self.index % lanes;
    const auto wrong = [&](const char* what) {
        fail(fmt::format("block {} thread {}: warp operation ({}) with mask {:08x}: {}", block.index,
                         self.index, text_of(place), mask, what));
    };
    if ((mask >> lane & 1) == 0) wrong("the thread's own lane is not in it");
    const bool has_all = block.ended == 0 && (warp + 1) * lanes <= threads_;
    for (unsigned other = 0; other < lanes && !has_all; ++other) {
        if ((mask >> other & 1) == 0) continue;
        if (warp * lanes + other >= threads_) wrong("the block has no thread for some of its lanes");
        if (block.threads[warp * lanes + other].state == Thread::State::ended)
            wrong("a thread of it has ended");
    }
    auto& meetings = block.meetings[warp];
    auto meeting = std::find_if(meetings.begin(), meetings.end(),
                                [&](const Meeting& one) { return (one.mask & mask) != 0; });
    if (meeting == meetings.end()) meeting = meetings.insert(meeting, {operation, mask, 0});
    if (meeting->mask != mask) wrong("other lanes of it wait with another mask");
    if (meeting->operation != operation) wrong("other lanes of it wait in another operation");
    meeting->arrived |= 1u << lane;
    self.value = value;
    self.argument = argument;
    self.state = Thread::State::at_warp_operation;
    self.place = place;
    if (meeting->arrived == mask) {
        complete(block, warp, *meeting);
        meetings.erase(meeting);
    } else {
        suspend();
    }
    return self.result;
}

void Launch::complete(Block& block, unsigned warp, const Meeting& meeting) {
    Thread* const first = &block.threads[warp * lanes];
    const auto inside = [&](unsigned lane) { return (meeting.mask >> lane & 1) != 0; };
    const auto lanes_where = [&](const auto& holds) {
        unsigned found = 0;
        for (unsigned lane = 0; lane < lanes; ++lane)
            if (inside(lane) && holds(first[lane])) found |= 1u << lane;
        return found;
    };
    const unsigned ballot = lanes_where([](const Thread& thread) { return thread.value != 0; });
    std::uint64_t either = 0;
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (inside(lane)) either |= first[lane].value;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (!inside(lane)) continue;
        Thread& thread = first[lane];
        if (meeting.operation == Operation::ballot) thread.result = ballot;
        if (meeting.operation == Operation::either) thread.result = either;
        if (meeting.operation == Operation::match)
            thread.result = lanes_where([&](const Thread& other) { return other.value == thread.value; });
        if (meeting.operation == Operation::shuffle) {
            if (!inside(thread.argument)) fail("a shuffle reads a lane that is not in its mask");
            thread.result = first[thread.argument].value;
        }
        thread.state = Thread::State::runs;
        if (&thread != current_) runnable_.push_back(&thread);
    }
}

void Launch::let_others_run(bool always) {
    if (failure_) throw Cancelled{};
    if (!always && generator() % 8 != 0) return;
    runnable_.push_back(current_);
    suspend();
}

std::byte* Launch::shared_memory(const void* variable, std::size_t bytes) {
    auto& shared = current_->block->shared;
    for (const SharedVariable& one : shared)
        if (one.variable == variable) return one.memory.get();
    shared.push_back({variable, std::make_unique_for_overwrite<std::byte[]>(bytes)});
    std::memset(shared.back().memory.get(), 0xa5, bytes);
    return shared.back().memory.get();
}

}  // namespace

void seed(std::uint64_t number) {
    generator.seed(number);
}

void launch(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
    if (blocks == 0 || threads == 0 || threads > 1024)
        throw Error(fmt::format("no device launches {} blocks of {} threads", blocks, threads));
    Launch launch(blocks, threads, kernel);
    running = &launch;
    launch.run();
}

void wait_for_block(Place place) {
    running->wait_for_block(place);
}
std::uint64_t wait_for_warp(Operation operation, unsigned mask, std::uint64_t value, unsigned argument,
                            Place place) {
    return running->wait_for_warp(operation, mask, value, argument, place);
}
void let_others_run(bool always) {
    running->let_others_run(always);
}
void note_progress() {
    running->note_progress();
}
std::byte* shared_memory(const void* variable, std::size_t bytes) {
    return running->shared_memory(variable, bytes);
}

}  // namespace hocket::simt
