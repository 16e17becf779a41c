#include "runtime/engine/run/direct_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/shared_run.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

constexpr const char* no_room =
    "the device has no memory that other ranks can open for what the schedule passes on";

// A schedule may combine although its collective does not, in places whose values nobody gets.
bool only_copies(const dsl::RankProgram& program) {
    return std::ranges::all_of(program.ops,
                               [](const dsl::Op& op) { return DeviceExecutor::runs(op) || op.is_order(); });
}

std::string doing(const Start& start) {
    return fmt::format("copying send ({}) and recv ({}) between the devices of this host",
                       static_cast<const void*>(start.send), static_cast<const void*>(start.recv));
}

}  // namespace

std::string with_name(const Plan& plan, const char* why) {
    return fmt::format("{} by {}: {}", dsl::name_of(plan.program().collective), plan.program().schedule, why);
}

void note_unable(device::Devices& devices, dsl::Rank rank) {
    devices.by_host().note(fmt::format("rank {} cannot go from device to device", rank));
}

const char* obstacle_to_sharing(const dsl::RankProgram& program) {
    if (SharedRun::suits(program)) return nullptr;
    if (program.ranks == 1) return "there is one rank alone";
    if (program.local_peers.size() + 1 < static_cast<std::size_t>(program.ranks))
        return "the ranks do not share one host";
    return program.chunks == 0 ? "the schedule moves nothing" : "the schedule divides the data too finely";
}

using device::DirectBuffer;

bool DirectStart::suits(const Plan& plan) {
    const dsl::RankProgram& program = plan.program();
    return !plan.reduces() && SharedRun::suits(program) && program.protocol != dsl::Protocol::latency &&
           !program.computes() && !plan.is_by_pair();
}

DirectStart::DirectStart(const Start& start, const device::Buffers& buffers)
    : buffers_(buffers),
      plan_(*start.plan),
      program_(start.plan->program()),
      binding_(start.plan->bind(layout_of(start))),
      doing_(doing(start)),
      bases_(program_.first_scratch()) {}

DirectStart::~DirectStart() {
    executor_.reset();
    give_work_back();
}

void DirectStart::give_work_back() noexcept {
    if (!work_.begin) return;
    is_lost_ ? queues_->set_aside(work_) : queues_->give_back(work_, {});
    work_ = {};
}

std::unique_ptr<DirectStart> DirectStart::begin(const Start& start, const device::Buffers& buffers) {
    std::unique_ptr<DirectStart> made;
    const char* why = obstacle_before(start, buffers);
    if (!why) {
        made.reset(new DirectStart(start, buffers));
        why = made->take(start);
    }
    if (!why) return made;
    if (start.plan->is_new_reason(why)) buffers.devices.by_host().note(with_name(*start.plan, why));
    return nullptr;
}

// Returns why the start cannot go from device to device, as far as that can be told without taking anything
// for it; null if it may.
const char* DirectStart::obstacle_before(const Start& start, const device::Buffers& buffers) {
    const Plan& plan = *start.plan;
    const bool sends = plan.input() != dsl::Share::none, receives = plan.output() != dsl::Share::none;
    if (plan.program().computes()) return "the schedule computes, which is done by the host";
    if (plan.is_by_pair()) return "each pair of ranks has a count of its own";
    if (const char* const why = obstacle_to_sharing(plan.program())) return why;
    if (plan.program().protocol == dsl::Protocol::latency) return "it is small";
    if (plan.reduces())
        return plan.runs_on_devices() ? "it combines, and one kernel cannot do all that it does"
                                      : "it combines, and HOCKET_CUDA_PLANS is off";
    if (!buffers.devices.may_export()) return "HOCKET_CUDA_IPC is off";
    if (start.tiles() != 1) return "it is divided into tiles";
    if (sends && !buffers.send) return "send is memory of the host";
    if (receives && !buffers.recv) return "recv is memory of the host";
    if (!only_copies(plan.program())) return "the schedule combines, although the collective does not";
    if (plan.must_copy_input(start.send, start.recv, layout_of(start)))
        return "it is in place, and so its input must be copied first";
    return nullptr;
}

// Takes what the start needs. Returns why it cannot go from device to device; null if it can.
const char* DirectStart::take(const Start& start) {
    if (!take_buffers(start)) return "other ranks cannot open send or recv: memory of a pool, or managed";
    queues_ = recv_ ? &recv_->queues() : &send_->queues();
    if (!take_work()) return no_room;
    executor_.emplace(program_, *queues_, doing_);
    return nullptr;
}

// Returns false if local peers use a buffer that they cannot open.
bool DirectStart::take_buffers(const Start& start) {
    const auto take = [&](const device::Place& place, const void* memory, dsl::Share share, bool is_shared,
                          const char* name, const char* verb) {
        const std::uint64_t bytes = bytes_of(start, binding_->layout, share);
        return DirectBuffer::make(buffers_, place, memory, name, verb,
                                  is_shared ? std::optional(bytes) : std::nullopt);
    };
    const dsl::Share held = start.plan->input(), wanted = start.plan->output();
    if (held != dsl::Share::none)
        send_ = take(*buffers_.send, start.send, held, program_.shares_input, "send", "to");
    if (wanted != dsl::Share::none)
        recv_ = take(*buffers_.recv, start.recv, wanted, program_.shares_output, "recv", "from");
    return (send_ || held == dsl::Share::none) && (recv_ || wanted == dsl::Share::none);
}

// Returns false if the device has no memory for the work area, or only such as local peers cannot open.
bool DirectStart::take_work() {
    if (binding_->memory_bytes == 0) return true;
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    try {
        work_ = queues_->take_block(binding_->memory_bytes, doing_, true);
    } catch (const Error& error) {
        if (error.status() != Status::out_of_memory) throw;
        return false;
    }
    if (program_.shares_work)
        exported_work_ = device::export_memory(buffers_.driver, work_.begin, binding_->memory_bytes, doing_);
    return !program_.shares_work || exported_work_;
}

void DirectStart::show(LocalPeers::Shown& own) const {
    const auto& offsets = binding_->byte_offsets;
    if (program_.shares_input) own.areas[dsl::input_area] = *send_->exported();
    if (program_.shares_output) own.areas[dsl::output_area] = *recv_->exported();
    if (program_.shares_work) own.areas[dsl::work_area] = *exported_work_;
    own.skipped = {offsets[program_.input_origin], offsets[program_.output_origin], 0};
}

// Returns the areas of local peers in which this rank's device reads or writes.
std::set<dsl::AreaId> DirectStart::areas_of_local_peers() const {
    std::set<dsl::AreaId> areas;
    const auto look = [&](dsl::AreaId area) {
        if (local_peer_of(program_, program_.memory_of(area))) areas.insert(program_.memory_of(area));
    };
    for (const dsl::Op& op : program_.ops) {
        if (!DeviceExecutor::runs(op) || binding_->bytes_of(op) == 0) continue;
        look(op.area);
        std::ranges::for_each(op.also, look);
        std::ranges::for_each(op.operands, look);
    }
    return areas;
}

bool DirectStart::open(const LocalPeers& local_peers, std::uint64_t sequence) {
    const auto refuse = [this](dsl::Rank peer) {
        buffers_.devices.by_host().note(
            fmt::format("device {} cannot reach memory of rank {}", queues_->device(), peer));
        return false;
    };
    for (const dsl::AreaId area : areas_of_local_peers()) {
        const dsl::Rank peer = program_.local_peers[*local_peer_of(program_, area)];
        const LocalPeers::Shown& shown = local_peers.shown(local_peers.member_of(peer), sequence);
        const dsl::AreaId theirs = area % dsl::areas_of_a_rank;
        std::byte* const begin = executor_->open(shown.areas[theirs]);
        if (!begin) return refuse(peer);
        bases_[area] = virtual_base(begin, shown.skipped[theirs]);
    }
    return true;
}

void DirectStart::end() noexcept {
    executor_->end();
    give_work_back();
}

bool DirectStart::let_go(LocalPeers& local_peers, std::chrono::steady_clock::time_point) noexcept {
    is_lost_ = true;
    executor_->settle(local_peers);
    return program_.shares_input || program_.shares_output || program_.shares_work;
}

std::unique_ptr<device::Staging> DirectStart::stage(Start& start) const {
    start.direct = nullptr;
    return engine::stage(start, buffers_, send_ ? &send_->point() : nullptr,
                         recv_ ? &recv_->point() : nullptr);
}

bool DirectStart::is_waiting() const {
    return (send_ && send_->awaits_stream()) || (recv_ && recv_->awaits_stream()) || executor_->is_busy();
}

std::string DirectStart::awaited() const {
    for (const auto* buffer : {&send_, &recv_})
        if (*buffer && (*buffer)->awaits_stream()) return (*buffer)->awaited();
    return doing_ + ": a copy has not ended";
}

}  // namespace hocket::engine
