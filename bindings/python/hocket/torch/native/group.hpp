// The process group: torch's own, whose calls go through its dispatcher to the backend, so that its hooks and
// its flight recorder see them. The dispatcher has no kernels for some tensors (quantized ones, and with some
// operations those of the meta device): their calls go directly to Python.
#pragma once

#include "backend.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace hocket::torch {

inline bool has_kernels(const at::Tensor& tensor) {
    if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return true;  // the subclass has its own
    return tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_meta();
}

template <typename Element>
bool has_kernels(const std::vector<Element>& list) {
    return std::all_of(list.begin(), list.end(), [](const Element& element) { return has_kernels(element); });
}

class ProcessGroup : public c10d::ProcessGroup {
  public:
    using Base = c10d::ProcessGroup;
    using Base::Base;

    void set_backend(c10::intrusive_ptr<Backend> backend) { backend_ = std::move(backend); }

    const std::string getBackendName() const override { return "hocket"; }

    Works allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
        return has_kernels(tensors) ? Base::allreduce(tensors, options)
                                    : python("allreduce", tensors, options);
    }
    Works allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
        return has_kernels(tensors) ? Base::allreduce_coalesced(tensors, options)
                                    : python("allreduce_coalesced", tensors, options);
    }
    Works broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
        return has_kernels(tensors) ? Base::broadcast(tensors, options)
                                    : python("broadcast", tensors, options);
    }
    Works reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
        return has_kernels(tensors) ? Base::reduce(tensors, options) : python("reduce", tensors, options);
    }
    Works allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
        return has_kernels(inputs) && has_kernels(outputs) ? Base::allgather(outputs, inputs, options)
                                                           : python("allgather", outputs, inputs, options);
    }
    Works allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
        return has_kernels(inputs) && has_kernels(outputs)
                   ? Base::allgather_coalesced(outputs, inputs, options)
                   : python("allgather_coalesced", outputs, inputs, options);
    }
    Works all_gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& options) override {
        return has_kernels(input) && has_kernels(output)
                   ? Base::all_gather_single(output, input, options)
                   : python("all_gather_single", output, input, options);
    }
    Works gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
        return has_kernels(inputs) && has_kernels(outputs) ? Base::gather(outputs, inputs, options)
                                                           : python("gather", outputs, inputs, options);
    }
    Works scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
        return has_kernels(inputs) && has_kernels(outputs) ? Base::scatter(outputs, inputs, options)
                                                           : python("scatter", outputs, inputs, options);
    }
    Works reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
        return has_kernels(inputs) && has_kernels(outputs)
                   ? Base::reduce_scatter(outputs, inputs, options)
                   : python("reduce_scatter", outputs, inputs, options);
    }
    Works reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override {
        return has_kernels(input) && has_kernels(output)
                   ? Base::reduce_scatter_single(output, input, options)
                   : python("reduce_scatter_single", output, input, options);
    }
    Works alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
        return has_kernels(inputs) && has_kernels(outputs) ? Base::alltoall(outputs, inputs, options)
                                                           : python("alltoall", outputs, inputs, options);
    }
    Works all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override {
        return has_kernels(input) && has_kernels(output)
                   ? Base::all_to_all_single(output, input, output_splits, input_splits, options)
                   : python("all_to_all_single", output, input, output_splits, input_splits, options);
    }
    Works send(Tensors& tensors, int peer, int tag) override {
        return has_kernels(tensors) ? Base::send(tensors, peer, tag) : python("send", tensors, peer, tag);
    }
    Works recv(Tensors& tensors, int peer, int tag) override {
        return has_kernels(tensors) ? Base::recv(tensors, peer, tag) : python("recv", tensors, peer, tag);
    }
    Works recvAnysource(Tensors& tensors, int tag) override {
        return has_kernels(tensors) ? Base::recvAnysource(tensors, tag)
                                    : python("recv_anysource", tensors, tag);
    }

  private:
    template <typename... Arguments>
    Works python(const char* name, Arguments&&... arguments) {
        TORCH_CHECK_WITH(DistBackendError, backend_, "hocket: ", name,
                         " on a process group without a backend");
        return backend_->python(name, std::forward<Arguments>(arguments)...);
    }

    c10::intrusive_ptr<Backend> backend_;
};

}  // namespace hocket::torch
