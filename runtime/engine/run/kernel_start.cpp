#include "runtime/engine/run/kernel_start.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/device/running_kernels.hpp"
#include "runtime/engine/run/direct_start.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

std::string doing_of(const Start& start) {
    const bool sends = start.plan->input() != dsl::Share::none,
               receives = start.plan->output() != dsl::Share::none;
    return fmt::format("running the kernel of {} on {}{}{}", dsl::name_of(start.plan->program().collective),
                       sends ? fmt::format("send ({})", static_cast<const void*>(start.send)) : "",
                       sends && receives ? " and " : "",
                       receives ? fmt::format("recv ({})", static_cast<const void*>(start.recv)) : "");
}

}  // namespace

// A rank without elements has no buffer, and cannot know if the others' are on devices.
bool KernelStart::must_be_alike(const Plan& plan, std::uint64_t count, const Layout* uneven) {
    if (count == 0 || !SharedKernels::suits(plan)) return false;
    const dsl::RankProgram& program = plan.program();
    const dsl::Contract& contract = contract_of(program.collective);
    if (!uneven && !contract.own) return true;
    const Layout even(uneven ? 0 : plan.elements_of_x(count));
    const Layout& layout = uneven ? *uneven : even;
    for (dsl::Rank rank = 0; rank < program.ranks; ++rank) {
        const bool is_root = rank == program.root;
        const bool has_whole = !contract.own && (contract.input.of(is_root) == dsl::Share::whole ||
                                                 contract.output.of(is_root) == dsl::Share::whole);
        if (!has_whole && layout.piece_count(rank, program.ranks) == 0) return false;
    }
    return true;
}

// Returns the buffers that have elements: what is passed for another one may be of any place.
device::Buffers KernelStart::with_elements(const Start& start, const device::Buffers& buffers) {
    device::Buffers with = buffers;
    const Layout layout = layout_of(start);
    if (bytes_of(start, layout, start.plan->input()) == 0) with.send.reset();
    if (bytes_of(start, layout, start.plan->output()) == 0) with.recv.reset();
    return with;
}

bool KernelStart::is_for(const Plan& plan, const Extent& extent, const device::Buffers& buffers) {
    return must_be_alike(plan, extent.count, extent.uneven) &&
           (buffers.send || !has_elements(plan, extent, plan.input())) &&
           (buffers.recv || !has_elements(plan, extent, plan.output()));
}

KernelStart::KernelStart(const Start& start, const device::Buffers& buffers, SharedKernels& kernels)
    : buffers_(with_elements(start, buffers)),
      kernels_(kernels),
      start_(start),
      binding_(start.plan->bind(layout_of(start))),
      doing_(doing_of(start)),
      queues_(&buffers.devices.queues(buffers.driver, buffers_.recv ? *buffers_.recv : *buffers_.send)) {
    start_.uneven = nullptr;
    kernel_ = kernels.find(*start.plan);
    if (kernel_ && !kernel_->suits(elements())) kernel_ = nullptr;
    if (kernel_ && &kernel_->queues() != queues_)
        throw Error(Status::device,
                    doing_ +
                        ": the first start of this plan had its buffers on another device, or in another "
                        "context; give each device a communicator of its own");
    if (kernel_) {
        const std::string obstacle = obstacle_of_buffers();
        if (!obstacle.empty()) throw Error(Status::device, doing_ + ": " + obstacle);
    } else if (capture() != 0) {
        throw Error(
            Status::invalid_argument,
            "the stream is being captured into a graph, and the ranks have not yet met for a start of "
            "this plan of so many elements, which cannot be part of a graph: start it once before the "
            "capture");
    }
}

KernelStart::~KernelStart() {
    if (event_) settle(Clock::now() + device::copies_end_within);
}

// ---- The first start ----------------------------------------------------------------------------

// The same for all buffers, so that it is told once.
std::string KernelStart::obstacle_of_buffers() {
    if (buffers_.send && buffers_.recv &&
        &buffers_.devices.queues(buffers_.driver, *buffers_.send) != queues_)
        return "send and recv are of different devices, or of different contexts";
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    if (&buffers_.devices.queues_of(buffers_.stream, *queues_) != queues_)
        return "the stream of hkt_comm_set_stream is of another context than the buffers";
    return "";
}

std::string KernelStart::find_obstacle(int members) {
    if (buffers_.devices.use().launches_block)
        return "with CUDA_LAUNCH_BLOCKING=1 kernels cannot wait for each other";
    if (!buffers_.devices.may_export()) return with_name(*start_.plan, "HOCKET_CUDA_IPC is off");
    if (std::string obstacle = obstacle_of_buffers(); !obstacle.empty()) return obstacle;
    // Once the ranks have met, another thread may launch the kernel.
    if (reinterpret_cast<std::uintptr_t>(buffers_.stream) == device::CU_STREAM_PER_THREAD)
        return "CU_STREAM_PER_THREAD is another stream in each thread; for the first start of a plan, or one "
               "of more elements, name a stream of one's own";
    // Each rank's kernel needs room for a block while the others wait.
    if (const int processors = queues_->processors(doing_); processors < members)
        return fmt::format("{} ranks may share device {}, which has {} multiprocessors", members,
                           queues_->device(), processors);
    const device::DeviceUse& use = buffers_.devices.use();
    const auto former = kernels_.find(*start_.plan);
    const std::uint64_t least = former ? former->elements() + former->elements() / 2 : 0;
    try {
        made_ = std::make_unique<SharedKernel>(*start_.plan, std::max(elements(), least), members,
                                               SharedKernels::load(*start_.plan, *queues_, use.code_folder),
                                               *queues_, use, doing_);
    } catch (const Error& error) {
        if (error.status() == Status::device) throw;
        if (error.status() == Status::out_of_memory)
            return with_name(*start_.plan, "the device, or its driver, has no memory for its kernel");
        return error.what();
    }
    return "";
}

bool KernelStart::may_be_used(int members) {
    if (!made_ && obstacle_.empty()) {
        // Behind this, other ranks free the memory of smaller starts, to which this rank's kernels may write.
        const auto held = device::RunningKernels::of_process().hold_if_none();
        if (!held) return false;
        obstacle_ = find_obstacle(members);
        if (!obstacle_.empty()) buffers_.devices.by_host().note(obstacle_);
    }
    return !made_ || made_->is_ready();
}

bool KernelStart::open(const LocalPeers& local_peers, std::uint64_t sequence) {
    const auto unreached = made_->open(start_.plan->program(), local_peers, sequence);
    if (!unreached) return true;
    buffers_.devices.by_host().note(
        fmt::format("device {} cannot reach memory of rank {}", queues_->device(), *unreached));
    return false;
}

void KernelStart::note_unable(dsl::Rank rank) const {
    engine::note_unable(buffers_.devices, rank);
}

std::unique_ptr<device::Staging> KernelStart::stage(Start& start) const {
    start.direct = nullptr;
    return engine::stage(start, buffers_);
}

// ---- The launch ---------------------------------------------------------------------------------

// Returns the number of the stream's capture; 0: it is not being captured.
std::uint64_t KernelStart::capture() const {
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    int status = 0;
    unsigned long long number = 0;
    buffers_.driver.require(buffers_.driver.stream_get_capture_info(buffers_.stream, &status, &number),
                            "cuStreamGetCaptureInfo", doing_);
    return status == device::CU_STREAM_CAPTURE_STATUS_ACTIVE ? number : 0;
}

// Memory for more arguments is taken while no kernel runs, and only if graphs have all of it for ever.
bool KernelStart::has_room() {
    if (kernel_->has_free_slot()) return true;
    if (!kernel_->is_full_of_graphs()) return false;
    const auto held = device::RunningKernels::of_process().hold_if_none();
    if (!held) return false;
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    kernel_->add_slots();
    return true;
}

void KernelStart::launch() {
    if (made_) kernel_ = kernels_.agree(*start_.plan, std::move(made_));
    const std::uint64_t graph = capture();
    is_in_graph_ = graph != 0;
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    kernels_.order(*queues_, buffers_.stream, graph, doing_);
    auto& running = device::RunningKernels::of_process();
    const auto lock = running.launch();
    place_ = kernel_->launch(start_, *binding_, buffers_.stream, is_in_graph_);
    const device::Event event = kernels_.mark(*queues_, buffers_.stream, graph, doing_);
    if (is_in_graph_) return kernel_.reset();  // the graph keeps it
    event_ = event;
    running.add(buffers_.driver, queues_->context(), event);
}

bool KernelStart::has_ended() {
    if (!event_) return true;
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    const int result = buffers_.driver.event_query(event_);
    if (result == device::CUDA_ERROR_NOT_READY) return false;
    buffers_.driver.require(result, "cuEventQuery", doing_);
    forget_launch();
    return true;
}

void KernelStart::forget_launch() {
    device::RunningKernels::of_process().remove(event_);
    kernels_.end(*queues_, event_);
    event_ = nullptr;
    kernel_->give_back(place_);
}

void KernelStart::settle(Clock::time_point until) noexcept {
    try {
        while (!has_ended()) {
            if (Clock::now() >= until) {
                queues_->note_endless();
                return abandon_launch();
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    } catch (...) {  // the context is gone, and so is the kernel
        abandon_launch();
    }
}

void KernelStart::abandon_launch() noexcept {
    device::RunningKernels::of_process().remove(event_);
    event_ = nullptr;
}

// Local peers use none of this rank's buffers.
bool KernelStart::let_go(LocalPeers&, Clock::time_point until) noexcept {
    if (kernel_) kernel_->give_up();
    if (made_) made_->give_up();
    if (event_) settle(until);
    return false;
}

std::string KernelStart::awaited() const {
    if (event_) return doing_ + ": the device's kernel has not ended";
    return doing_ + (kernel_ ? ": earlier kernels have not ended" : ": its memory has not been cleared");
}

}  // namespace hocket::engine
