#include "runtime/engine/run/shared_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/compute/jit/device_image.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/engine/run/shared_run.hpp"

namespace hocket::engine {
namespace {

device::KernelImage image_of(const Plan& plan, int capability, const std::string& folder) {
    const compute::Reduction& op = plan.op();
    const jit::DeviceShape shape = jit::device_shape_of(
        plan.program(), plan.type(), op.built_in(), op.defined() ? op.defined()->formula : dsl::Formula());
    jit::DeviceImage image =
        jit::device_image(shape, capability, jit::CodeCache(folder), jit::CodeCollection::of_hocket());
    return {std::move(image.text), jit::device_kernel_name, std::move(image.code)};
}

}  // namespace

SharedKernels::~SharedKernels() {
    for (const auto& [capture, last] : last_)
        if (capture != 0) last.queues->give_back(last.event);
}

bool SharedKernels::suits(const Plan& plan) {
    const dsl::RankProgram& program = plan.program();
    return plan.runs_on_devices() && !plan.is_by_pair() && program.all_have_buffers &&
           SharedRun::suits(program) && !program.computes() && !jit::why_no_device_kernel(program);
}

device::LoadedKernel& SharedKernels::load(const Plan& plan, device::Queues& queues,
                                          const std::string& folder) {
    const dsl::RankProgram& program = plan.program();
    const std::string doing =
        fmt::format("loading the kernel of {} by {} on device {}", dsl::name_of(program.collective),
                    program.schedule, queues.device());
    const std::string key =
        fmt::format("{:x} {} {} {:x} {}", program.fingerprint, program.root, name_of(plan.type()),
                    plan.op().identity(), static_cast<int>(program.protocol));
    const device::InContext here(queues.driver(), queues.context(), doing);
    return queues.kernel(
        key, [&] { return image_of(plan, queues.capability(doing), folder); }, doing);
}

SharedKernels::Key SharedKernels::key_of(const Plan& plan) {
    const dsl::RankProgram& program = plan.program();
    return {program.fingerprint,  program.root,     plan.type(),
            plan.op().identity(), program.protocol, plan.is_uneven()};
}

std::shared_ptr<SharedKernel> SharedKernels::find(const Plan& plan) const {
    const auto found = kernels_.find(key_of(plan));
    return found == kernels_.end() ? nullptr : found->second.current;
}

std::shared_ptr<SharedKernel> SharedKernels::agree(const Plan& plan, std::unique_ptr<SharedKernel> kernel) {
    Kernels& kernels = kernels_[key_of(plan)];
    if (kernels.current) kernels.former.push_back(std::move(kernels.current));
    std::erase_if(kernels.former,
                  [](const auto& former) { return !has_starts(former) && !former->is_in_graphs(); });
    if (kernels.program.ops.empty()) kernels.program = plan.program();
    kernels.current = std::move(kernel);
    kernels.current->agree();
    return kernels.current;
}

// ---- The order of launches ----------------------------------------------------------------------

void SharedKernels::order(device::Queues& queues, device::Stream stream, std::uint64_t capture,
                          const std::string& doing) {
    const auto last = last_.find(capture);
    if (last == last_.end()) return;
    // Each thread has a stream of its own under that one handle.
    const bool is_same = stream == last->second.stream && last->second.queues == &queues &&
                         reinterpret_cast<std::uintptr_t>(stream) != device::CU_STREAM_PER_THREAD;
    if (is_same) return;
    queues.driver().require(queues.driver().stream_wait_event(stream, last->second.event, 0),
                            "cuStreamWaitEvent", doing);
}

device::Event SharedKernels::mark(device::Queues& queues, device::Stream stream, std::uint64_t capture,
                                  const std::string& doing) {
    const device::Event event = queues.take_event(doing);
    const int result = queues.driver().event_record(event, stream);
    if (result != device::CUDA_SUCCESS) queues.give_back(event);
    queues.driver().require(result, "cuEventRecord", doing);
    const auto [last, is_first] = last_.try_emplace(capture);
    if (!is_first && capture != 0) last->second.queues->give_back(last->second.event);
    last->second = {&queues, stream, event};
    forget_old_captures();
    return event;
}

// CUDA does not tell the end of a capture. Captures are numbered in the order in which they began, behind 0.
void SharedKernels::forget_old_captures() {
    while (last_.size() > most_captures) {
        const auto oldest = last_.upper_bound(0);
        oldest->second.queues->give_back(oldest->second.event);
        last_.erase(oldest);
    }
}

void SharedKernels::end(device::Queues& queues, device::Event event) {
    if (const auto last = last_.find(0); last != last_.end() && last->second.event == event)
        last_.erase(last);
    queues.give_back(event);
}

// ---- Failures -----------------------------------------------------------------------------------

std::optional<SharedKernels::GivenUp> SharedKernels::given_up_in_graph() const {
    for (const auto& [key, kernels] : kernels_) {
        const auto look = [&](const std::shared_ptr<SharedKernel>& kernel) -> std::optional<GivenUp> {
            if (!kernel->is_in_graphs() || has_starts(kernel)) return std::nullopt;
            const jit::DeviceReport report = kernel->report();
            if (report.taken == 0) return std::nullopt;
            const dsl::RankProgram& program = kernels.program;
            GivenUp given_up{report, std::string(dsl::name_of(program.collective)), program.schedule, "", -1};
            if (report.operation < program.ops.size())
                given_up.location = program.origins[program.ops[report.operation].origin].location;
            if (report.peer < program.local_peers.size()) given_up.peer = program.local_peers[report.peer];
            return given_up;
        };
        if (kernels.current)
            if (auto found = look(kernels.current)) return found;
        for (const auto& former : kernels.former)
            if (auto found = look(former)) return found;
    }
    return std::nullopt;
}

void SharedKernels::give_up() noexcept {
    for (auto& [key, kernels] : kernels_) {
        if (kernels.current) kernels.current->give_up();
        for (const auto& former : kernels.former) former->give_up();
    }
}

}  // namespace hocket::engine
