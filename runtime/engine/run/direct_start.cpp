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

// A schedule may combine although its collective does not, in places whose values nobody gets.
bool only_copies(const dsl::RankProgram& program) {
    return std::ranges::all_of(program.ops,
                               [](const dsl::Op& op) { return DeviceExecutor::runs(op) || op.is_order(); });
}

}  // namespace

using device::DirectBuffer;

bool DirectStart::suits(const Plan& plan) {
    const dsl::RankProgram& program = plan.program();
    return SharedRun::suits(program) && program.protocol != dsl::Protocol::latency && !plan.reduces() &&
           !program.computes() && !plan.is_by_pair();
}

DirectStart::DirectStart(const Start& start, const device::Buffers& buffers)
    : buffers_(buffers),
      program_(start.plan->program()),
      binding_(start.plan->bind(layout_of(start))),
      doing_(fmt::format("copying send ({}) and recv ({}) between the devices of this host",
                         static_cast<const void*>(start.send), static_cast<const void*>(start.recv))),
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
    const Plan& plan = *start.plan;
    const bool sends = plan.input() != dsl::Share::none, receives = plan.output() != dsl::Share::none;
    if (!suits(plan) || !only_copies(plan.program())) return nullptr;
    if (!buffers.devices.may_export() || start.tiles() != 1) return nullptr;
    if ((sends && !buffers.send) || (receives && !buffers.recv)) return nullptr;
    if (plan.must_copy_input(start.send, start.recv, layout_of(start))) return nullptr;
    std::unique_ptr<DirectStart> made(new DirectStart(start, buffers));
    if (!made->take_buffers(start)) return nullptr;
    made->queues_ = made->recv_ ? &made->recv_->queues() : &made->send_->queues();
    if (!made->take_work()) return nullptr;
    made->executor_.emplace(made->program_, *made->queues_, made->doing_);
    return made;
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
    if (!program_.shares_work) return true;
    exported_work_ = device::export_memory(buffers_.driver, work_.begin, work_.bytes, doing_);
    return exported_work_.has_value();
}

bool DirectStart::may_be_used() {
    return (!send_ || send_->may_be_used()) && (!recv_ || recv_->may_be_used());
}

void DirectStart::show(LocalPeers::Shown& own) const {
    const auto& offsets = binding_->byte_offsets;
    if (program_.shares_input) own.areas[dsl::input_area] = *send_->exported();
    if (program_.shares_output) own.areas[dsl::output_area] = *recv_->exported();
    if (program_.shares_work) own.areas[dsl::work_area] = *exported_work_;
    own.skipped = {offsets[program_.input_origin], offsets[program_.output_origin], 0};
}

// Returns the areas of local peers in which this rank's copies read or write.
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
    for (const dsl::AreaId area : areas_of_local_peers()) {
        const dsl::Rank peer = program_.local_peers[*local_peer_of(program_, area)];
        const LocalPeers::Shown& shown = local_peers.shown(local_peers.member_of(peer), sequence);
        const dsl::AreaId theirs = area % dsl::areas_of_a_rank;
        std::byte* const begin = executor_->open(shown.areas[theirs]);
        if (!begin) return false;
        bases_[area] = virtual_base(begin, shown.skipped[theirs]);
    }
    return true;
}

void DirectStart::end() noexcept {
    executor_->end();
    give_work_back();
}

bool DirectStart::let_go(LocalPeers& local_peers) noexcept {
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
