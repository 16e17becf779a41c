#include "runtime/cache/io/loop.hpp"

#include <fcntl.h>

#include <algorithm>
#include <thread>

namespace hocket::cache {
namespace {

Operation transfer(FileCall call, int fd, std::byte* data, std::size_t bytes, std::uint64_t offset) {
    Operation operation;
    operation.transfer = {call, fd, data, bytes, offset};
    return operation;
}

}  // namespace

// The operation is part of the frame of the waiting coroutine.
struct Loop::Performing {
    Io& io;
    Operation& operation;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
        operation.waiting = waiting;
        io.submit(operation);
    }
    std::int64_t await_resume() const noexcept { return operation.result; }
};

// The outermost coroutine of a task. Its frame destroys itself.
struct Loop::Spawned {
    struct promise_type {
        Spawned get_return_object() {
            return Spawned{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
    std::coroutine_handle<> handle;
};

Loop::Loop(const Files& files, IoKind kind, unsigned depth, Workers& workers)
    : workers_(workers), io_(make_io(files, kind, depth)) {}

Loop::~Loop() = default;

void Loop::post(std::function<void()> call) {
    tell([&] { posts_.push_back(std::move(call)); });
}

void Loop::stop() {
    tell([&] { stopping_ = true; });
}

void Loop::came_back(WorkerCall& call) {
    tell([&] { back_.push(call); });
}

// Makes the change under the lock, and wakes the loop without it, for which it would wait as soon as it is
// awake. Once the loop sees the change it may end and be destroyed, so run() waits for those that wake it.
template <typename Change>
void Loop::tell(Change change) {
    {
        const std::lock_guard lock(mutex_);
        change();
        has_news_ = true;
        if (!std::exchange(asleep_, false)) return;
        ++wakers_;
    }
    io_.io->wake();
    --wakers_;
}

void Loop::run() {
    io_.io->enter();
    for (;;) {
        const bool stopping = take_news();
        take_due_timers();
        resume_ready();
        if (stopping && tasks_ == 0) break;
        Fifo<Operation> done;
        io_.io->wait(time_to_sleep(), done);
        while (!done.empty()) ready_.push_back(done.pop().waiting);
    }
    while (wakers_ != 0) std::this_thread::yield();
}

// Returns true if the loop should end once no task is left.
bool Loop::take_news() {
    Fifo<Job> back;
    bool stopping;
    {
        const std::lock_guard lock(mutex_);
        calls_.swap(posts_);
        back.append(back_);
        stopping = stopping_;
        has_news_ = asleep_ = false;
    }
    while (!back.empty()) ready_.push_back(static_cast<WorkerCall&>(back.pop()).waiting());
    for (const auto& call : calls_) call();
    calls_.clear();
    return stopping;
}

void Loop::take_due_timers() {
    if (timers_.empty()) return;
    const auto now = Clock::now();
    while (!timers_.empty() && timers_.top().when <= now) {
        ready_.push_back(timers_.top().waiting);
        timers_.pop();
    }
}

// Also resumes coroutines that become ready meanwhile, so that all their operations go to the kernel in one
// batch.
void Loop::resume_ready() {
    for (std::size_t i = 0; i < ready_.size(); ++i) ready_[i].resume();
    ready_.clear();
}

// Returns nothing if the loop should sleep until it is woken.
std::optional<std::chrono::nanoseconds> Loop::time_to_sleep() {
    {
        const std::lock_guard lock(mutex_);
        if (has_news_) return std::chrono::nanoseconds(0);
        asleep_ = true;
    }
    if (timers_.empty()) return std::nullopt;
    return std::max<std::chrono::nanoseconds>(std::chrono::nanoseconds(0), timers_.top().when - Clock::now());
}

void Loop::spawn(Task<> task) {
    ready_.push_back(drive(std::move(task)).handle);
    ++tasks_;
}

void Loop::begin(Task<> task) {
    ++tasks_;
    drive(std::move(task)).handle.resume();
}

Loop::Spawned Loop::drive(Task<> task) {
    co_await std::move(task);
    --tasks_;
}

Loop::Performing Loop::perform(Operation& operation) {
    return {*io_.io, operation};
}

Task<std::int64_t> Loop::read(int fd, void* to, std::size_t bytes, std::uint64_t offset) {
    Operation operation = transfer(FileCall::read, fd, static_cast<std::byte*>(to), bytes, offset);
    co_return co_await perform(operation);
}

Task<std::int64_t> Loop::write(int fd, const void* from, std::size_t bytes, std::uint64_t offset) {
    auto* const data = static_cast<std::byte*>(const_cast<void*>(from));
    Operation operation = transfer(FileCall::write, fd, data, bytes, offset);
    co_return co_await perform(operation);
}

Task<int> Loop::open(std::string path, int flags) {
    Operation operation;
    operation.kind = Operation::Kind::open;
    operation.path = &path;
    operation.flags = flags | O_NONBLOCK;
    co_return static_cast<int>(co_await perform(operation));
}

Task<int> Loop::close(int fd) {
    Operation operation;
    operation.kind = Operation::Kind::close;
    operation.transfer.fd = fd;
    co_return static_cast<int>(co_await perform(operation));
}

Task<int> Loop::status(std::string path, struct statx& to) {
    Operation operation;
    operation.kind = Operation::Kind::status;
    operation.path = &path;
    operation.status = &to;
    co_return static_cast<int>(co_await perform(operation));
}

}  // namespace hocket::cache
