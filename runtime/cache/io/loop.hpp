// The cache's event loop: a thread that runs coroutines, which wait for I/O, for worker threads and for time.
// I/O uses io_uring where the kernel allows it, else threads.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/io/make_io.hpp"
#include "runtime/cache/io/task.hpp"
#include "runtime/cache/io/workers.hpp"

namespace hocket::cache {

class Loop {
  public:
    using Clock = std::chrono::steady_clock;

    // depth: operations in flight at once; others wait their turn. files and workers must outlive the loop.
    // Throws Error(io) if io_uring is requested but not available.
    Loop(const Files& files, IoKind kind, unsigned depth, Workers& workers);
    ~Loop();  // all spawned tasks must have ended
    Loop(const Loop&) = delete;

    // Names the way I/O runs and, if that is not the requested one, the reason: "io_uring", "threads",
    // "threads (io_uring: Operation not permitted)".
    const std::string& io_name() const { return io_.name; }

    // ---- Any thread
    // Runs it on the loop's thread, in order. It must not throw. Calls posted after stop() may be dropped.
    void post(std::function<void()> call);
    void stop();  // makes run() return once all tasks have ended

    // ---- The loop's thread: the one that calls run()
    void run();  // call once; throws Error(io) if the kernel refuses to run its I/O
    // Starts the task soon. An exception that leaves the task is a defect and ends the process. May also be
    // called before run(), by the thread that starts the loop's thread.
    void spawn(Task<> task);
    void begin(Task<> task);  // the same, but starts it at once
    std::size_t tasks() const { return tasks_; }

    // Awaitables. read and write move all bytes unless the file ends (a short transfer continues where it
    // stopped); their result is bytes moved or -errno. Buffers must stay valid until then.
    Task<std::int64_t> read(int fd, void* to, std::size_t bytes, std::uint64_t offset);
    Task<std::int64_t> write(int fd, const void* from, std::size_t bytes, std::uint64_t offset);
    Task<int> open(std::string path, int flags);  // a descriptor or -errno; as Files::open_linked
    Task<int> close(int fd);
    Task<int> status(std::string path, struct statx& to);  // size, mtime and type; 0 or -errno

    // co_await loop.delay(5ms)
    auto delay(std::chrono::nanoseconds time);
    // co_await loop.on_worker([&] { return blocking_call(); }) returns the call's result or throws its
    // exception. The call may capture by reference, because the coroutine's frame stays alive while it waits.
    template <typename Call>
    auto on_worker(Call call);
    // Runs on other workers than the loop's own. A call that may wait for the loop's own workers must not
    // occupy them.
    template <typename Call>
    auto on_worker(Workers& workers, Call call);

  private:
    struct Delay;
    struct Performing;
    class WorkerCall;
    template <typename Call>
    class OnWorker;
    struct Spawned;

    struct Timer {
        Clock::time_point when;
        std::uint64_t number;  // orders timers of the same time: first come, first served
        std::coroutine_handle<> waiting;
        bool operator>(const Timer& other) const {
            return when != other.when ? when > other.when : number > other.number;
        }
    };

    Performing perform(Operation& operation);
    Spawned drive(Task<> task);
    void came_back(WorkerCall& call);
    template <typename Change>
    void tell(Change change);
    bool take_news();
    void take_due_timers();
    void resume_ready();
    std::optional<std::chrono::nanoseconds> time_to_sleep();

    Workers& workers_;
    NamedIo io_;

    // Used only on the loop's thread.
    std::size_t tasks_ = 0;
    std::vector<std::coroutine_handle<>> ready_;
    std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
    std::uint64_t timers_made_ = 0;
    std::vector<std::function<void()>> calls_;  // the calls being run

    std::mutex mutex_;
    std::vector<std::function<void()>> posts_;
    Fifo<Job> back_;  // finished WorkerCalls
    bool stopping_ = false;
    bool has_news_ = false;             // one of these is not empty
    bool asleep_ = false;               // or about to be: a thread that adds something must wake it
    std::atomic<unsigned> wakers_ = 0;  // threads that are about to wake it
};

struct Loop::Delay {
    Loop& loop;
    Clock::time_point when;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
        loop.timers_.push({when, loop.timers_made_++, waiting});
    }
    void await_resume() const noexcept {}
};

inline auto Loop::delay(std::chrono::nanoseconds time) {
    return Delay{*this, Clock::now() + time};
}

class Loop::WorkerCall : public Job {
  public:
    WorkerCall(Loop& loop, Workers& workers) : loop_(loop), workers_(workers) {}
    WorkerCall(const WorkerCall&) = delete;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
        waiting_ = waiting;
        workers_.submit(*this);
    }
    std::coroutine_handle<> waiting() const { return waiting_; }

  protected:
    ~WorkerCall() = default;
    void come_back() { loop_.came_back(*this); }

  private:
    Loop& loop_;
    Workers& workers_;
    std::coroutine_handle<> waiting_;
};

template <typename Call>
class Loop::OnWorker final : public WorkerCall {
  public:
    using Result = std::invoke_result_t<Call&>;

    OnWorker(Loop& loop, Workers& workers, Call call) : WorkerCall(loop, workers), call_(std::move(call)) {}

    Result await_resume() {
        if (error_) std::rethrow_exception(std::move(error_));
        if constexpr (!std::is_void_v<Result>) return std::move(*result_);
    }

  private:
    void run() noexcept override {
        try {
            if constexpr (std::is_void_v<Result>) {
                call_();
            } else {
                result_.emplace(call_());
            }
        } catch (...) {
            error_ = std::current_exception();
        }
        come_back();
    }

    Call call_;
    std::optional<std::conditional_t<std::is_void_v<Result>, std::monostate, Result>> result_;
    std::exception_ptr error_;
};

template <typename Call>
auto Loop::on_worker(Call call) {
    return OnWorker<Call>(*this, workers_, std::move(call));
}

template <typename Call>
auto Loop::on_worker(Workers& workers, Call call) {
    return OnWorker<Call>(*this, workers, std::move(call));
}

}  // namespace hocket::cache
