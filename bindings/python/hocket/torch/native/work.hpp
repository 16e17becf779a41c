// torch's handles of operations: of those that C++ has started, and of those that Python has.
#pragma once

#include "calls.hpp"
#include "python.hpp"

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

namespace hocket::torch {

// As communicator.milliseconds in Python: a day at most; none for torch's values that mean "none was given":
// 0 and -1.
inline std::optional<std::int64_t> milliseconds(std::chrono::milliseconds timeout) {
    constexpr std::int64_t longest = 24 * 3600 * 1000;
    const std::int64_t value = timeout.count();
    if (value < -1) return longest;  // a time longer than torch can count
    if (value <= 0) return std::nullopt;
    return std::min(value, longest);
}

// The future of an operation's result.
inline c10::intrusive_ptr<c10::ivalue::Future> new_future() {
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

// A work of the Python backend, kept alive for C++.
class PythonWork : public c10d::Work {
  public:
    // key: for getCompletionKey(). Call it with the GIL.
    PythonWork(py::object work, const Group& group, std::uint64_t key)
        : object_(shared(std::move(work))), key_(key) {
        if (group.completions->are_any())
            object_->attr("when_ended")(
                py::cpp_function([completions = group.completions, key] { completions->tell(key); }));
    }

    std::uint64_t getCompletionKey() const override { return key_; }

    bool wait(std::chrono::milliseconds timeout) override {
        const py::gil_scoped_acquire gil;
        return object_->attr("wait")(timeout).cast<bool>();
    }

    void synchronize() override { wait(std::chrono::milliseconds(0)); }
    bool isCompleted() override { return ask<bool>("is_completed"); }
    bool isSuccess() const override { return ask<bool>("is_success"); }
    int sourceRank() const override { return ask<int>("source_rank"); }
    std::vector<at::Tensor> result() override { return ask<std::vector<at::Tensor>>("result"); }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

    std::exception_ptr exception() const override {
        const py::gil_scoped_acquire gil;
        py::object exception = object_->attr("exception")();
        return exception.is_none() ? nullptr : as_cpp(shared(std::move(exception)));
    }

  private:
    template <typename Value>
    Value ask(const char* name) const {
        const py::gil_scoped_acquire gil;
        return object_->attr(name)().template cast<Value>();
    }

    Object object_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;  // once it has been asked for; with the GIL
    const std::uint64_t key_;
};

// An operation that C++ has started.
struct Operation {
    const char* name;
    c10d::OpType type;
    std::vector<at::Tensor> result;
    std::vector<at::Tensor> inputs;  // besides those of the result, to be kept alive
    std::optional<std::int64_t> timeout_ms;
    int source = -1;
};

// Whoever notices the end of the operation first (a wait, a test) frees the request. One thread at a time is
// in a call with the request, since that call may free it. What is needed rarely, a future or someone who
// keeps the tensors of a work that was dropped, is Python's: the request is handed over to a work of the
// Python backend.
class NativeWork : public c10d::Work {
  public:
    NativeWork(Group group, hkt_request* request, Operation operation, int rank, std::uint64_t sequence)
        : Work(rank, operation.type),
          group_(std::move(group)),
          operation_(std::move(operation)),
          sequence_(sequence),
          request_(request) {
        ++group_.calls->in_flight;
        if (request == nullptr) settle(nullptr);
    }

    ~NativeWork() override;

    // Waits for a while, for a program that is about to wait: between the two the communicator's thread would
    // take the operation over, and handing it back takes longer than many operations do. An error is left for
    // wait().
    void wait_at_once() { end(std::min(operation_.timeout_ms.value_or(at_once_ms), at_once_ms)); }

    bool wait(std::chrono::milliseconds timeout) override;
    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    void synchronize() override { wait(std::chrono::milliseconds(0)); }
    std::uint64_t getSequencenumber() const override { return sequence_; }
    std::uint64_t getCompletionKey() const override { return key_; }

    int sourceRank() const override {
        TORCH_CHECK_WITH(DistBackendError, operation_.source >= 0, "hocket: ", operation_.name,
                         " has no source: only receives have one");
        return operation_.source;
    }

  private:
    static constexpr std::int64_t at_once_ms = 50;

    enum class State { in_flight, ended, handed_over };

    class Turn;

    // Waits for at most this many milliseconds, -1: as long as the communicator allows. Returns false if the
    // operation has not ended by then.
    bool end(std::int64_t timeout_ms);
    bool look(std::int64_t timeout_ms);
    void settle(Object error);
    void hand_over();
    py::object adopted();

    const Group group_;
    Operation operation_;
    const std::uint64_t sequence_;
    const std::uint64_t key_ = Completions::new_key();
    hkt_request* request_;
    Object error_;
    c10::intrusive_ptr<PythonWork> python_;        // once it is handed over
    std::atomic<State> state_ = State::in_flight;  // written last, and read without the mutex
    std::timed_mutex turn_;
    std::atomic<std::thread::id> has_turn_;
};

}  // namespace hocket::torch
