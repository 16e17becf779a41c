// The backend that torch's dispatcher calls. It starts the plain cases of the frequent operations by itself,
// and passes everything else to the methods of the same names of the Python backend (operations.py).
#pragma once

#include "memory.hpp"
#include "work.hpp"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace hocket::torch {

using Works = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// How the program waits for an operation.
struct Manner {
    template <typename Options>
    explicit Manner(const Options& options) : timeout(options.timeout), is_async(options.asyncOp) {}
    Manner() = default;

    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    bool is_async = true;
};

// The threads whose operations Python collects, from startCoalescing() to endCoalescing(). Those of other
// threads begin at once meanwhile.
class Collecting {
  public:
    void begin() {
        const std::lock_guard lock(mutex_);
        threads_.insert(std::this_thread::get_id());
        are_any_ = true;
    }

    void end() {
        const std::lock_guard lock(mutex_);
        threads_.erase(std::this_thread::get_id());
        are_any_ = !threads_.empty();
    }

    bool is_here() const {
        if (!are_any_) return false;
        const std::lock_guard lock(mutex_);
        return threads_.contains(std::this_thread::get_id());
    }

  private:
    mutable std::mutex mutex_;
    std::set<std::thread::id> threads_;
    std::atomic<bool> are_any_ = false;  // read without the mutex, by each operation
};

class Backend : public c10d::Backend {
  public:
    Backend(Group group, int rank, int size) : c10d::Backend(rank, size), group_(std::move(group)) {}

    const std::string getBackendName() const override { return "hocket"; }
    bool supportsSplitting() const override { return true; }
    c10::intrusive_ptr<Options> getBackendOptions() override;
    std::uint64_t getSequenceNumberForGroup() override;
    void setTimeout(std::chrono::milliseconds timeout) override;
    void startCoalescing() override;
    Works endCoalescing() override;
    void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                            const std::vector<int>& ranks,
                                            const c10::intrusive_ptr<Options>& options) override;
    bool supportsCompletionHooks() const override { return true; }
    void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override {
        group_.completions->add(id, std::move(hook));
    }
    void unregisterCompletionHook(std::int64_t id) override { group_.completions->remove(id); }
    void abort() override { call("abort"); }
    void shutdown() override { call("shutdown"); }

    Works allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
    Works broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
    Works reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
    Works allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
    Works all_gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& options) override;
    Works reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
    Works reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override;
    Works all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
    Works send(Tensors& tensors, int peer, int tag) override;
    Works recv(Tensors& tensors, int peer, int tag) override;
    Works barrier(const c10d::BarrierOptions& options) override;

    // Python's alone.
    Works allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
        return python("allreduce", tensors, options);
    }
    Works allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
        return python("allreduce_coalesced", tensors, options);
    }
    Works allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
        return python("allgather_coalesced", outputs, inputs, options);
    }
    Works all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& options) override {
        return python("all_gather_single_coalesced", outputs, inputs, options);
    }
    Works reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
        return python("reduce_scatter_single_coalesced", outputs, inputs, options);
    }
    Works gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
        return python("gather", outputs, inputs, options);
    }
    Works gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) override {
        return python("gather_single", output, input, options);
    }
    Works scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
        return python("scatter", outputs, inputs, options);
    }
    Works alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
        return python("alltoall", outputs, inputs, options);
    }
    Works recvAnysource(Tensors& tensors, int tag) override { return python("recv_anysource", tensors, tag); }

    // Calls the Python backend's method.
    template <typename... Arguments>
    Works python(const char* name, Arguments&&... arguments) {
        const py::gil_scoped_acquire gil;
        py::object work = group_.operations->attr(name)(std::forward<Arguments>(arguments)...);
        if (work.is_none()) return {};
        return c10::make_intrusive<PythonWork>(std::move(work), group_, Completions::new_key());
    }

  private:
    void call(const char* name) {
        const py::gil_scoped_acquire gil;
        group_.operations->attr(name)();
    }

    void sweep() {
        const py::gil_scoped_acquire gil;
        group_.calls->has_handed_over = false;  // first: another thread may hand over meanwhile
        if (group_.operations->attr("sweep")().cast<bool>()) group_.calls->has_handed_over = true;
    }

    // Python collects the operations of a coalescing manager, and writes the profiler's records.
    bool is_python_needed() const {
        return collecting_.is_here() || ::torch::profiler::impl::profilerEnabled();
    }

    // Starts an operation: function(comm, request). Returns null if the group was destroyed, which Python
    // then says.
    template <typename Function>
    Works start(Operation operation, Manner manner, const Function& function) {
        const Calls::Inside inside(*group_.calls);
        if (inside.comm() == nullptr) return {};
        const std::uint64_t sequence = ++started_;
        if (sequence % sweep_every == 0 && group_.calls->has_handed_over) sweep();
        hkt_request* request = nullptr;
        hkt_status status = HKT_SUCCESS;
        {
            const WithoutGil others_may_need_it;
            status = function(inside.comm(), &request);
        }
        if (status < 0) {
            --started_;  // ranks whose call was not refused count the same
            const py::gil_scoped_acquire gil;
            raise(shared(group_.operations->attr("failure")(static_cast<int>(status))));
        }
        const auto given = milliseconds(manner.timeout);
        operation.timeout_ms = given ? given : milliseconds(timeout_.load());
        auto work =
            c10::make_intrusive<NativeWork>(group_, request, std::move(operation), getRank(), sequence);
        if (!manner.is_async) work->wait_at_once();
        return work;
    }

    Works gathered(const Tensors& outputs, const at::Tensor& input, const c10d::AllgatherOptions& options);
    Works scattered(const at::Tensor& output, const Tensors& inputs,
                    const c10d::ReduceScatterOptions& options);

    static constexpr std::uint64_t sweep_every = 16;  // operations

    const Group group_;
    Collecting collecting_;
    std::atomic<std::uint64_t> started_ = 0;  // operations that C++ has started
    std::atomic<std::chrono::milliseconds> timeout_ = std::chrono::milliseconds(0);  // as set by setTimeout
};

}  // namespace hocket::torch
