#include "runtime/engine/run/small_run.hpp"

#include <algorithm>

#include "dsl/graph/region.hpp"
#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/shared_run.hpp"
#include "runtime/engine/start/input_copy.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

// Returns true if an operation reads the rank's own input at a place where an earlier operation has written
// its output: the two may be one buffer.
bool reads_input_late(const dsl::RankProgram& program) {
    // Compare, for one shared buffer, the places that an operation reads as input and writes as output.
    const auto at = [&](dsl::BoundaryId boundary) { return program.boundaries[boundary]; };
    const auto read = [&](const dsl::Op& op, dsl::AreaId area) {
        const dsl::BoundaryId from =
            area < program.first_shifted() ? op.begin : program.shifted[area - program.first_shifted()].from;
        return dsl::Interval{at(from), at(from + (op.end - op.begin))};
    };
    const dsl::Rational output(program.buffers - 1);
    std::vector<dsl::Interval> written;
    for (const dsl::Op& op : program.ops) {
        if (!op.is_elementwise()) continue;
        for (const dsl::AreaId area : op.operands) {
            if (program.memory_of(area) != dsl::input_area) continue;
            const dsl::Interval own = read(op, area);
            for (const dsl::Interval& earlier : written)
                if (own.begin < earlier.end && earlier.begin < own.end) return true;
        }
        written.push_back({at(op.begin) - output, at(op.end) - output});
    }
    return false;
}

// Returns true if the program needs only the others' inputs, which they publish when they enter.
bool is_small(const dsl::RankProgram& program) {
    if (!SharedRun::suits(program) || program.protocol != dsl::Protocol::latency) return false;
    if (program.shares_output || program.uses_work || !program.scratch.empty()) return false;
    if (reads_input_late(program)) return false;
    return std::all_of(program.ops.begin(), program.ops.end(), [](const dsl::Op& op) {
        return op.kind != Kind::await || op.guards_buffers || op.message == 1;
    });
}

}  // namespace

std::unique_ptr<SmallRun> SmallRun::of(const Plan& plan) {
    if (!is_small(plan.program())) return nullptr;
    return std::unique_ptr<SmallRun>(new SmallRun(plan));
}

SmallRun::SmallRun(const Plan& plan)
    : program_(plan.program()),
      output_origin_(plan.program().output_origin),
      input_origin_(plan.program().input_origin),
      element_(element_size(plan.type())),
      parts_(plan.elements_of_x(1)),
      most_elements_(LocalPeers::least_tile_bytes / element_ / parts_),
      areas_(plan.program().areas()) {
    const dsl::RankProgram& program = plan.program();
    reads_send_ = program.input() != dsl::Share::none;
    shows_part_ = program.input() == dsl::Share::own;
    multiplies_ = plan.multiplies();
    for (dsl::OpId id = 0; id < program.ops.size(); ++id) {
        const dsl::Op& op = program.ops[id];
        if (op.kind == Kind::await && !op.guards_buffers) awaited_.push_back(op.peer);
        if (op.is_elementwise()) local_.push_back({id, op.begin, op.end});
    }
}

bool SmallRun::run(Plan& plan, LocalPeers& local_peers, std::uint64_t count, const void* send, void* recv,
                   double factor, std::uint64_t sequence, std::uint32_t checksum) {
    if (count == 0 || count > most_elements_ || !local_peers.is_free(sequence)) return false;
    if (count != count_) {
        binding_ = plan.bind(count * parts_);
        count_ = count;
        bytes_ = count * parts_ * element_;
        shares_cores_ = local_peers.ranks_per_core() > 1;
        if (const auto path = local_peers.hand_over_path()) plan.path_to_copies().fix(*path);
    }
    const HandOverPath::Choice choice = plan.path_to_copies().next(bytes_, sequence, 0);
    busy_ = {};
    show(plan, local_peers, sequence, checksum, send, factor, choice);
    if (!meet(local_peers, sequence, checksum)) return false;
    place(local_peers, sequence, send, recv);
    local_peers.note_copies(sequence, 0);
    time(choice, [&] { combine(plan); });
    if (choice.is_timed) note_time(plan, local_peers, choice);
    return true;
}

void SmallRun::note_time(Plan& plan, LocalPeers& local_peers, const HandOverPath::Choice& choice) const {
    const std::uint64_t program = program_.fingerprint;
    local_peers.show_cost(choice.path, program,
                          static_cast<double>(busy_.count()) / static_cast<double>(bytes_));
    plan.path_to_copies().note(choice, bytes_, busy_, local_peers.cost_of_others(choice.path, program));
}

// The processor's time takes a system call, which takes longer than the copy of some KiB. So it is only asked
// for where other ranks may take the processor meanwhile.
std::chrono::nanoseconds SmallRun::now() const {
    return shares_cores_ ? HandOverPath::processor_time()
                         : std::chrono::steady_clock::now().time_since_epoch();
}

// Calls call(), which does not wait for anything.
template <typename Call>
void SmallRun::time(const HandOverPath::Choice& choice, Call call) {
    if (!choice.is_timed) return call();
    const std::chrono::nanoseconds begin = now();
    call();
    busy_ += now() - begin;
}

void SmallRun::combine(Plan& plan) const {
    const std::uint64_t* offsets = binding_->byte_offsets.data();
    for (const LocalOp& op : local_)
        if (offsets[op.begin] != offsets[op.end]) plan.executor().run(op.id, areas_.data(), offsets);
}

void SmallRun::show(const Plan& plan, LocalPeers& local_peers, std::uint64_t sequence, std::uint32_t checksum,
                    const void* send, double factor, const HandOverPath::Choice& choice) {
    std::byte* copy = copy_of(local_peers, local_peers.self(), sequence);
    if (reads_send_)
        time(choice,
             [&] { copy_shown(plan, copy, static_cast<const std::byte*>(send), factor, choice.path); });
    LocalPeers::Line& line = local_peers.line(local_peers.self(), sequence);
    line.completed = local_peers.completed();
    line.checksum = checksum;
    line.in_windows = 0;
    line.extents = {};
    local_peers.signal(sequence, 0, 1);
}

// Copies the stretches that peers read; all of the input if this rank reads the copy, too.
void SmallRun::copy_shown(const Plan& plan, std::byte* copy, const std::byte* input, double factor,
                          kernels::Path path) const {
    const std::uint64_t* offsets = binding_->byte_offsets.data();
    const std::uint64_t origin = offsets[input_origin_];
    const auto copy_one = [&](std::uint64_t begin, std::uint64_t end) {
        if (begin == end) return;
        copy_input(plan, factor, copy + begin, input + (begin - origin), end - begin, ReadBy::local_peers,
                   path);
    };
    if (multiplies_) return copy_one(origin, origin + (shows_part_ ? count_ * element_ : bytes_));
    for (const dsl::Stretch& read : program_.input_read) copy_one(offsets[read.begin], offsets[read.end]);
}

bool SmallRun::meet(LocalPeers& local_peers, std::uint64_t sequence, std::uint32_t checksum) const {
    return std::all_of(awaited_.begin(), awaited_.end(), [&](dsl::Rank rank) {
        const Member member = local_peers.member_of(rank);
        return local_peers.has_reached(member, sequence, 0, 1) &&
               local_peers.agrees(member, sequence, checksum);
    });
}

// This rank reads its input in the caller's buffer, unless it was multiplied: its own copy is moving to the
// others' caches by now, and would have to be fetched back.
void SmallRun::place(const LocalPeers& local_peers, std::uint64_t sequence, const void* send, void* recv) {
    areas_[dsl::input_area] = multiplies_ ? copy_of(local_peers, local_peers.self(), sequence)
                                          : virtual_base(send, binding_->byte_offsets[input_origin_]);
    areas_[dsl::output_area] = virtual_base(recv, binding_->byte_offsets[output_origin_]);
    for (const dsl::Rank rank : awaited_) {
        const Member member = local_peers.member_of(rank);
        areas_[local_peers.area_of(member, dsl::input_area)] = copy_of(local_peers, member, sequence);
    }
    place_shifted(program_, binding_->byte_offsets.data(), areas_.data());
}

std::byte* SmallRun::copy_of(const LocalPeers& local_peers, Member member, std::uint64_t sequence) const {
    const dsl::BoundaryId first = program_.first_uses[static_cast<std::size_t>(member)][dsl::input_area];
    const std::uint64_t unused = first == dsl::RankProgram::never_used ? 0 : binding_->byte_offsets[first];
    const bool is_swapped = local_peers.is_swapped(sequence, 0);
    return local_peers.place_of({member, dsl::input_area, bytes_, unused, is_swapped}, sequence, 0);
}

}  // namespace hocket::engine
