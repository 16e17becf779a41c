#include "runtime/engine/run/direct_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/shared_run.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

constexpr const char* no_room =
    "the device has no memory that other ranks can open for what the schedule passes on";

constexpr const char* threads_of_one_process =
    "ranks of the host are threads of one process, where a kernel that waits for other ranks could keep "
    "their kernels from being launched";

std::string with_name(const Plan& plan, const char* why) {
    return fmt::format("{} by {}: {}", dsl::name_of(plan.program().collective), plan.program().schedule, why);
}

// Returns why the ranks do not share their memory; null if they do.
const char* obstacle_to_sharing(const dsl::RankProgram& program) {
    if (SharedRun::suits(program)) return nullptr;
    if (program.ranks == 1) return "there is one rank alone";
    if (program.local_peers.size() + 1 < static_cast<std::size_t>(program.ranks))
        return "the ranks do not share one host";
    return program.chunks == 0 ? "the schedule moves nothing" : "the schedule divides the data too finely";
}

// A schedule may combine although its collective does not, in places whose values nobody gets.
bool only_copies(const dsl::RankProgram& program) {
    return std::ranges::all_of(program.ops,
                               [](const dsl::Op& op) { return DeviceExecutor::runs(op) || op.is_order(); });
}

bool copies_input(const Start& start) {
    const Plan& plan = *start.plan;
    return plan.reduces() &&
           jit::copies_input(plan.program(), plan.op().built_in(),
                             plan.op().defined() ? plan.op().defined()->formula : dsl::Formula(),
                             plan.must_copy_input(start.send, start.recv, layout_of(start)));
}

std::string doing(const Start& start) {
    return fmt::format("{} send ({}) and recv ({}) between the devices of this host",
                       start.plan->reduces() ? "combining" : "copying", static_cast<const void*>(start.send),
                       static_cast<const void*>(start.recv));
}

}  // namespace

using device::DirectBuffer;

bool DirectStart::suits(const Plan& plan) {
    const dsl::RankProgram& program = plan.program();
    return SharedRun::suits(program) && program.protocol != dsl::Protocol::latency &&
           (!plan.reduces() || plan.runs_on_devices()) && !program.computes() && !plan.is_by_pair();
}

DirectStart::DirectStart(const Start& start, const device::Buffers& buffers)
    : buffers_(buffers),
      plan_(*start.plan),
      program_(start.plan->program()),
      binding_(start.plan->bind(layout_of(start))),
      doing_(doing(start)),
      copies_input_(copies_input(start)),
      bases_(program_.first_scratch()) {}

DirectStart::~DirectStart() {
    executor_.reset();
    launch_.reset();
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
    if (plan.reduces() && !plan.runs_on_devices()) return "it combines, and HOCKET_CUDA_PLANS is off";
    if (plan.reduces() && buffers.devices.shares_process()) return threads_of_one_process;
    if (!buffers.devices.may_export()) return "HOCKET_CUDA_IPC is off";
    if (start.tiles() != 1) return "it is divided into tiles";
    if (sends && !buffers.send) return "send is memory of the host";
    if (receives && !buffers.recv) return "recv is memory of the host";
    if (plan.reduces()) return nullptr;
    if (!only_copies(plan.program())) return "the schedule combines, although the collective does not";
    if (plan.must_copy_input(start.send, start.recv, layout_of(start)))
        return "it is in place, and so its input must be copied first";
    return nullptr;
}

// Takes what the start needs; for a kernel all that takes the device's time comes later, with its turn.
// Returns why it cannot go from device to device; null if it can.
const char* DirectStart::take(const Start& start) {
    if (!take_buffers(start)) return "other ranks cannot open send or recv: memory of a pool, or managed";
    queues_ = recv_ ? &recv_->queues() : &send_->queues();
    if (plan_.reduces()) {
        if (send_ && &send_->queues() != queues_)
            return "send and recv are of different devices, or of different contexts";
        launch_.emplace(plan_, *binding_, buffers_, *queues_, copies_input_, doing_);
        return nullptr;
    }
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
        send_ = take(*buffers_.send, start.send, held, program_.shares_input && !copies_input_, "send", "to");
    if (wanted != dsl::Share::none)
        recv_ = take(*buffers_.recv, start.recv, wanted, program_.shares_output, "recv", "from");
    input_ = const_cast<std::byte*>(start.send);
    output_ = start.recv;
    return (send_ || held == dsl::Share::none) && (recv_ || wanted == dsl::Share::none);
}

// Returns false if the device has no memory for the work area, or only such as local peers cannot open.
bool DirectStart::take_work() {
    const std::uint64_t copied = copies_input_ ? bytes_of_input() : 0;
    if (binding_->memory_bytes + copied == 0) return true;
    const device::InContext here(buffers_.driver, queues_->context(), doing_);
    try {
        work_ = queues_->take_block(binding_->memory_bytes + copied, doing_, true);
    } catch (const Error& error) {
        if (error.status() != Status::out_of_memory) throw;
        return false;
    }
    const auto exported = [&](std::uint64_t begin, std::uint64_t bytes) {
        return device::export_memory(buffers_.driver, work_.begin + begin, bytes, doing_);
    };
    if (program_.shares_work) exported_work_ = exported(0, binding_->memory_bytes);
    if (program_.shares_input && copied > 0) exported_copy_ = exported(binding_->memory_bytes, copied);
    return (!program_.shares_work || exported_work_) &&
           (!program_.shares_input || copied == 0 || exported_copy_);
}

std::uint64_t DirectStart::bytes_of_input() const {
    const Layout& layout = binding_->layout;
    const bool is_own = plan_.input() == dsl::Share::own;
    return plan_.element() * (is_own ? layout.piece_count(program_.rank, program_.ranks) : layout.count());
}

bool DirectStart::may_be_used(int members) {
    return (!send_ || send_->may_be_used()) && (!recv_ || recv_->may_be_used()) &&
           (!launch_ || is_prepared(members));
}

bool DirectStart::is_prepared(int members) {
    if (!launch_->prepare(members)) return false;
    obstacle_ = launch_->obstacle();
    if (is_able() && !take_work()) obstacle_ = no_room;
    if (!is_able()) buffers_.devices.by_host().note(obstacle_);
    return true;
}

void DirectStart::show(LocalPeers::Shown& own) const {
    const auto& offsets = binding_->byte_offsets;
    if (program_.shares_input)
        own.areas[dsl::input_area] = exported_copy_ ? *exported_copy_ : *send_->exported();
    if (program_.shares_output) own.areas[dsl::output_area] = *recv_->exported();
    if (program_.shares_work) own.areas[dsl::work_area] = *exported_work_;
    own.skipped = {offsets[program_.input_origin], offsets[program_.output_origin], 0};
    if (launch_) launch_->show(own);
}

// Returns the areas of local peers in which this rank's device reads or writes.
std::set<dsl::AreaId> DirectStart::areas_of_local_peers() const {
    std::set<dsl::AreaId> areas;
    const auto look = [&](dsl::AreaId area) {
        if (local_peer_of(program_, program_.memory_of(area))) areas.insert(program_.memory_of(area));
    };
    for (const dsl::Op& op : program_.ops) {
        if (!runs_on_device(op) || binding_->bytes_of(op) == 0) continue;
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
    if (launch_ && launch_->shares_process(local_peers, sequence)) {
        buffers_.devices.note_shared_process();
        buffers_.devices.by_host().note(with_name(plan_, threads_of_one_process));
        return false;
    }
    for (const dsl::AreaId area : areas_of_local_peers()) {
        const dsl::Rank peer = program_.local_peers[*local_peer_of(program_, area)];
        const LocalPeers::Shown& shown = local_peers.shown(local_peers.member_of(peer), sequence);
        const dsl::AreaId theirs = area % dsl::areas_of_a_rank;
        std::byte* const begin = open(shown.areas[theirs]);
        if (!begin) return refuse(peer);
        bases_[area] = virtual_base(begin, shown.skipped[theirs]);
    }
    if (!launch_) return true;
    const auto unreached = launch_->open_signals(local_peers, sequence);
    return !unreached || refuse(*unreached);
}

void DirectStart::note_unable(dsl::Rank rank) const {
    buffers_.devices.by_host().note(fmt::format("rank {} cannot go from device to device", rank));
}

std::vector<std::byte*> DirectStart::all_areas() const {
    const auto& offsets = binding_->byte_offsets;
    std::vector<std::byte*> areas(program_.areas() + 1);
    std::ranges::copy(bases_, areas.begin());  // its own are not in there
    areas.back() = virtual_base(input_, offsets[program_.input_origin]);
    areas[dsl::input_area] =
        copies_input_ ? virtual_base(work_.begin + binding_->memory_bytes, offsets[program_.input_origin])
                      : areas.back();
    areas[dsl::output_area] = virtual_base(output_, offsets[program_.output_origin]);
    areas[dsl::work_area] = work_.begin;
    for (std::size_t i = 0; i < program_.scratch.size(); ++i)
        areas[program_.first_scratch() + i] =
            virtual_base(address(work_.begin, binding_->slot_offsets[i]), offsets[program_.scratch[i].begin]);
    place_shifted(program_, offsets.data(), areas.data());
    return areas;
}

void DirectStart::end() noexcept {
    launch_ ? launch_->end() : executor_->end();
    give_work_back();
}

bool DirectStart::let_go(LocalPeers& local_peers) noexcept {
    is_lost_ = true;
    launch_ ? launch_->settle(local_peers) : executor_->settle(local_peers);
    return launch_ || program_.shares_input || program_.shares_output || program_.shares_work;
}

std::unique_ptr<device::Staging> DirectStart::stage(Start& start) const {
    start.direct = nullptr;
    return engine::stage(start, buffers_, send_ ? &send_->point() : nullptr,
                         recv_ ? &recv_->point() : nullptr);
}

bool DirectStart::is_waiting() const {
    return (send_ && send_->awaits_stream()) || (recv_ && recv_->awaits_stream()) ||
           (launch_ ? launch_->is_busy() : executor_->is_busy());
}

std::string DirectStart::awaited() const {
    for (const auto* buffer : {&send_, &recv_})
        if (*buffer && (*buffer)->awaits_stream()) return (*buffer)->awaited();
    return doing_ + (launch_ ? ": the device's kernel has not ended" : ": a copy has not ended");
}

}  // namespace hocket::engine
