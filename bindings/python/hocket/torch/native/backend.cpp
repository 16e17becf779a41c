#include "backend.hpp"

namespace hocket::torch {

// ---- Collectives and messages. Each returns null from start(), or does not start, where Python is needed

Works Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
    const auto memory = memory_of(tensors);
    const auto op = operator_of(options.reduceOp);
    // In a backward pass the tensor may be a bucket, which Python knows (buckets.py).
    if (memory && op && !is_python_needed() && ::torch::autograd::get_current_graph_task_id() < 0) {
        if (auto work = start({"all_reduce", c10d::OpType::ALLREDUCE, tensors, {}, {}}, Manner(options),
                              [&](hkt_comm* comm, hkt_request** request) {
                                  return hkt_all_reduce(memory->begin, memory->begin, memory->count,
                                                        memory->type, *op, comm, request);
                              }))
            return work;
    }
    return python("allreduce", tensors, options);
}

Works Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
    if (const auto memory = memory_of(tensors); memory && !is_python_needed()) {
        if (auto work = start({"broadcast", c10d::OpType::BROADCAST, tensors, {}, {}}, Manner(options),
                              [&](hkt_comm* comm, hkt_request** request) {
                                  return hkt_broadcast(
                                      memory->begin, memory->begin, memory->count, memory->type,
                                      static_cast<std::int32_t>(options.rootRank), comm, request);
                              }))
            return work;
    }
    return python("broadcast", tensors, options);
}

Works Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
    const auto memory = memory_of(tensors);
    const auto op = operator_of(options.reduceOp);
    if (memory && op && !is_python_needed()) {
        void* const result = options.rootRank == getRank() ? memory->begin : nullptr;
        if (auto work = start({"reduce", c10d::OpType::REDUCE, tensors, {}, {}}, Manner(options),
                              [&](hkt_comm* comm, hkt_request** request) {
                                  return hkt_reduce(memory->begin, result, memory->count, memory->type, *op,
                                                    static_cast<std::int32_t>(options.rootRank), comm,
                                                    request);
                              }))
            return work;
    }
    return python("reduce", tensors, options);
}

Works Backend::gathered(const Tensors& outputs, const at::Tensor& input,
                        const c10d::AllgatherOptions& options) {
    const auto send = memory_of(input);
    if (!send || is_python_needed()) return {};
    const auto recv = memory_of_pieces(outputs, *send, getSize());
    if (!recv || !are_apart(*send, *recv, recv->begin + getRank() * send->bytes)) return {};
    return start({"all_gather", c10d::OpType::ALLGATHER, outputs, {input}, {}}, Manner(options),
                 [&](hkt_comm* comm, hkt_request** request) {
                     return hkt_all_gather(send->begin, recv->begin, send->count, send->type, comm, request);
                 });
}

Works Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                         const c10d::AllgatherOptions& options) {
    if (outputs.size() == 1 && inputs.size() == 1)
        if (auto work = gathered(outputs[0], inputs[0], options)) return work;
    return python("allgather", outputs, inputs, options);
}

Works Backend::all_gather_single(at::Tensor& output, at::Tensor& input,
                                 const c10d::AllgatherOptions& options) {
    if (auto work = gathered({output}, input, options)) return work;
    return python("all_gather_single", output, input, options);
}

Works Backend::scattered(const at::Tensor& output, const Tensors& inputs,
                         const c10d::ReduceScatterOptions& options) {
    const auto recv = memory_of(output);
    const auto op = operator_of(options.reduceOp);
    if (!recv || !op || is_python_needed()) return {};
    const auto send = memory_of_pieces(inputs, *recv, getSize());
    if (!send || !are_apart(*recv, *send, send->begin + getRank() * recv->bytes)) return {};
    return start({"reduce_scatter", c10d::OpType::REDUCE_SCATTER, {output}, inputs, {}}, Manner(options),
                 [&](hkt_comm* comm, hkt_request** request) {
                     return hkt_reduce_scatter(send->begin, recv->begin, recv->count, recv->type, *op, comm,
                                               request);
                 });
}

Works Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                              const c10d::ReduceScatterOptions& options) {
    if (outputs.size() == 1 && inputs.size() == 1)
        if (auto work = scattered(outputs[0], inputs[0], options)) return work;
    return python("reduce_scatter", outputs, inputs, options);
}

Works Backend::reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                     const c10d::ReduceScatterOptions& options) {
    if (auto work = scattered(output, {input}, options)) return work;
    return python("reduce_scatter_single", output, input, options);
}

Works Backend::all_to_all_single(at::Tensor& output, at::Tensor& input,
                                 std::vector<std::int64_t>& output_splits,
                                 std::vector<std::int64_t>& input_splits,
                                 const c10d::AllToAllOptions& options) {
    const auto ranks = static_cast<std::size_t>(getSize());
    const auto send = memory_of(input);
    const auto recv = memory_of(output);
    const auto are_even = [&](const at::Tensor& tensor) {
        return tensor.dim() > 0 && tensor.size(0) % getSize() == 0;
    };
    if (send && recv && send->type == recv->type && send->count == recv->count && output_splits.empty() &&
        input_splits.empty() && are_even(input) && are_even(output) && are_apart(*send, *recv, recv->begin) &&
        !is_python_needed()) {
        if (auto work = start({"all_to_all", c10d::OpType::ALLTOALL_BASE, {output}, {input}, {}},
                              Manner(options), [&](hkt_comm* comm, hkt_request** request) {
                                  return hkt_all_to_all(send->begin, recv->begin, send->count / ranks,
                                                        send->type, comm, request);
                              }))
            return work;
    }
    return python("all_to_all_single", output, input, output_splits, input_splits, options);
}

Works Backend::send(Tensors& tensors, int peer, int tag) {
    if (const auto memory = memory_of(tensors); memory && !is_python_needed()) {
        if (auto work = start({"send", c10d::OpType::SEND, tensors, {}, {}}, Manner(),
                              [&](hkt_comm* comm, hkt_request** request) {
                                  return hkt_send(memory->begin, memory->count, memory->type, peer, tag, comm,
                                                  request);
                              }))
            return work;
    }
    return python("send", tensors, peer, tag);
}

Works Backend::recv(Tensors& tensors, int peer, int tag) {
    if (const auto memory = memory_of(tensors); memory && !is_python_needed()) {
        if (auto work = start({"recv", c10d::OpType::RECV, tensors, {}, {}, peer}, Manner(),
                              [&](hkt_comm* comm, hkt_request** request) {
                                  return hkt_recv(memory->begin, memory->count, memory->type, peer, tag, comm,
                                                  request);
                              }))
            return work;
    }
    return python("recv", tensors, peer, tag);
}

Works Backend::barrier(const c10d::BarrierOptions& options) {
    if (!is_python_needed())
        if (auto work =
                start({"barrier", c10d::OpType::BARRIER, {}, {}, {}}, Manner(options),
                      [](hkt_comm* comm, hkt_request** request) { return hkt_barrier_start(comm, request); }))
            return work;
    return python("barrier", options);
}

// ---- About the group

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions() {
    const py::gil_scoped_acquire gil;
    return group_.operations->attr("options").cast<c10::intrusive_ptr<Options>>();
}

std::uint64_t Backend::getSequenceNumberForGroup() {
    const py::gil_scoped_acquire gil;
    return started_ + group_.operations->attr("_get_sequence_number_for_group")().cast<std::uint64_t>();
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
    timeout_ = timeout;
    const py::gil_scoped_acquire gil;
    group_.operations->attr("set_timeout")(timeout);
}

void Backend::startCoalescing() {
    const py::gil_scoped_acquire gil;
    group_.operations->attr("_start_coalescing")("cpu");
    collecting_.begin();
}

Works Backend::endCoalescing() {
    collecting_.end();
    return python("_end_coalescing");
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
    const py::gil_scoped_acquire gil;
    group_.operations->attr("monitored_barrier")(options.timeout, wait_all_ranks);
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
    const py::gil_scoped_acquire gil;
    const py::object made = group_.operations->attr("split")(store, ranks, options);
    return made.is_none() ? nullptr : made.cast<c10::intrusive_ptr<c10d::Backend>>();
}

}  // namespace hocket::torch
