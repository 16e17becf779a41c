#include "runtime/engine/run/staged.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/shared_run.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

// Orders stretches across chunks, because runs in tiles work on a stretch of each chunk at a time.
std::vector<Stretch> across_chunks(std::uint64_t count, std::uint64_t chunks, std::uint64_t element) {
    const std::uint64_t together = std::max<std::uint64_t>(1 << 20, count * element / 64);
    const Tiling tiling(count, chunks, std::max(together / chunks / element, std::uint64_t{1024}));
    if (tiling.is_whole()) return {{0, count * element}};
    std::vector<Stretch> stretches;
    for (std::uint64_t tile = 0; tile < tiling.tiles(); ++tile)
        Tile(tiling, tile, element)
            .for_stretches(0, chunks, [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) {
                stretches.push_back({in_x, in_x + bytes});
            });
    return stretches;
}

// Removes stretches from what is left of a buffer.
class Rest {
  public:
    explicit Rest(std::uint64_t bytes) {
        if (bytes > 0) free_[0] = bytes;
    }

    void take(std::uint64_t begin, std::uint64_t end, std::vector<Stretch>& taken) {
        auto place = free_.upper_bound(begin);
        if (place != free_.begin()) --place;
        while (place != free_.end() && place->first < end) {
            const auto [first, last] = *place;
            const std::uint64_t from = std::max(first, begin), to = std::min(last, end);
            place = std::next(place);
            if (from >= to) continue;
            free_.erase(first);
            if (first < from) free_[first] = from;
            if (to < last) free_[to] = last;
            taken.push_back({from, to});
        }
    }

  private:
    std::map<std::uint64_t, std::uint64_t> free_;  // begin -> end
};

// Returns the stretches in the order in which the program's operations read them.
std::vector<Stretch> by_use(const Start& start, const Layout& layout, std::uint64_t bytes) {
    const dsl::RankProgram& program = start.plan->program();
    const auto binding = start.plan->bind(layout, start.arguments.get());
    const auto& offsets = binding->byte_offsets;
    Rest rest(bytes);
    std::vector<Stretch> stretches;
    for (const dsl::Op& op : program.ops)
        for_reads(op, [&](dsl::AreaId area, dsl::BoundaryId begin, dsl::BoundaryId end) {
            if (program.memory_of(area) != dsl::input_area) return;
            std::uint64_t shift = 0;  // modulo 2^64
            if (area >= program.first_shifted()) {
                const dsl::ShiftedArea& shifted = program.shifted[area - program.first_shifted()];
                shift = offsets[shifted.from] - offsets[shifted.at];
            }
            const std::uint64_t origin = offsets[program.input_origin];
            rest.take(offsets[begin] + shift - origin, offsets[end] + shift - origin, stretches);
        });
    rest.take(0, bytes, stretches);
    return stretches;
}

// The part of a further buffer that the program reads, in the order of its operations.
struct Reads {
    std::uint64_t begin = 0;           // the first byte
    std::vector<Stretch> stretches{};  // from there
};
Reads reads_of(const dsl::RankProgram& program, const Binding& binding, dsl::AreaId read) {
    const auto& offsets = binding.byte_offsets;
    std::uint64_t end = 0;
    const auto for_ranges = [&](auto call) {
        for (const dsl::Op& op : program.ops)
            for_reads(op, [&](dsl::AreaId area, dsl::BoundaryId from, dsl::BoundaryId to) {
                if (area == read && offsets[from] < offsets[to]) call(offsets[from], offsets[to]);
            });
    };
    for_ranges([&](std::uint64_t, std::uint64_t to) { end = std::max(end, to); });
    Reads reads{end};
    for_ranges([&](std::uint64_t from, std::uint64_t) { reads.begin = std::min(reads.begin, from); });
    Rest rest(end - reads.begin);
    for_ranges([&](std::uint64_t from, std::uint64_t to) {
        rest.take(from - reads.begin, to - reads.begin, reads.stretches);
    });
    return reads;
}

// The further buffers of a start that are on devices.
struct FurtherBuffers {
    std::vector<std::size_t> indices;   // among the start's
    std::vector<std::uint64_t> begins;  // the first byte that is staged
    std::vector<device::StagedBuffer> staged;
};
FurtherBuffers further_of(const Start& start, const Layout& layout, const device::Buffers& buffers) {
    FurtherBuffers further;
    if (buffers.further.empty()) return further;
    const dsl::RankProgram& program = start.plan->program();
    const auto binding = start.plan->bind(layout, start.arguments.get());
    std::size_t index = 0;
    for (const dsl::ProgramBuffer& extra : program.extras) {
        if (extra.area < 0 || extra.buffer.kind != dsl::ExtraBuffer::Kind::given) continue;
        const std::size_t given = index++;
        if (!buffers.further[given]) continue;
        Reads reads =
            reads_of(program, *binding, program.first_kept() + static_cast<dsl::AreaId>(extra.area));
        if (reads.stretches.empty()) continue;
        further.indices.push_back(given);
        further.begins.push_back(reads.begin);
        further.staged.push_back({*buffers.further[given], start.arguments->given[given] + reads.begin,
                                  std::move(reads.stretches), fmt::format("buffers[{}]", given)});
    }
    return further;
}

std::vector<Stretch> input_of(const Start& start, const Layout& layout) {
    const Plan& plan = *start.plan;
    const dsl::RankProgram& program = plan.program();
    if (plan.is_by_pair()) return stretches_sent(start);
    const std::uint64_t bytes = bytes_of(start, layout, plan.input());
    const bool goes_in_tiles =
        (SharedRun::suits(program) && !plan.is_uneven() && !program.computes()) || !start.tiling.is_whole();
    if (goes_in_tiles && plan.input() == dsl::Share::whole)
        return across_chunks(layout.count(), program.chunks, plan.element());
    if (program.local_peers.empty() && start.tiles() == 1) return by_use(start, layout, bytes);
    return {{0, bytes}};
}

}  // namespace

std::unique_ptr<device::Staging> stage(Start& start, const device::Buffers& buffers,
                                       const device::StreamPoint* send_behind,
                                       const device::StreamPoint* recv_behind) {
    const Layout layout = layout_of(start);
    const auto place = [&](const std::optional<device::Place>& where, const void* memory,
                           std::vector<Stretch> stretches, const char* name,
                           const device::StreamPoint* behind) -> std::optional<device::StagedBuffer> {
        if (!where) return std::nullopt;
        return device::StagedBuffer{*where, memory, std::move(stretches), name, behind};
    };
    const std::vector<Stretch> output = stretches_received(start);
    FurtherBuffers further = further_of(start, layout, buffers);
    auto staging = device::Staging::begin(
        buffers,
        place(buffers.send, start.send, buffers.send ? input_of(start, layout) : output, "send", send_behind),
        place(buffers.recv, start.recv, output, "recv", recv_behind), std::move(further.staged));
    if (staging->input()) start.send = staging->input();
    if (staging->output()) start.recv = staging->output();
    if (!further.indices.empty()) {
        const auto arguments = std::make_shared<compute::Arguments>(*start.arguments);
        for (std::size_t i = 0; i < further.indices.size(); ++i)
            arguments->given[further.indices[i]] = virtual_base(staging->further(i), further.begins[i]);
        start.arguments = arguments;
    }
    start.staging = staging.get();
    return staging;
}

void StagedOps::begin(device::Staging* staging, const Plan& plan, const Binding& binding, const Tile& tile,
                      std::byte* recv, bool needs_all_input) {
    staging_ = staging;
    if (!staging) return;
    plan_ = &plan;
    binding_ = &binding;
    tile_ = tile;
    recv_ = recv;
    needs_all_input_ = needs_all_input;
    if (needs_all_input) return;
    writers_.assign(plan.program().boundaries.size(), 0);
    for (const dsl::Op& op : plan.program().ops)
        for_outputs(op, [&](dsl::BoundaryId begin, dsl::BoundaryId end) {
            for (; begin < end; ++begin) ++writers_[begin];
        });
}

// Calls call(begin, end) for each range that an operation writes to the output.
template <typename Call>
void StagedOps::for_outputs(const dsl::Op& op, Call call) const {
    for_writes(op, [&](dsl::AreaId area, dsl::BoundaryId begin, dsl::BoundaryId end) {
        if (plan_->program().memory_of(area) == dsl::output_area) call(begin, end);
    });
}

// Calls call(at, bytes) for each place of a region in buffers that hold x, counted from their virtual base.
template <typename Call>
void StagedOps::for_places(dsl::BoundaryId begin, dsl::BoundaryId end, Call call) const {
    const auto& offsets = binding_->byte_offsets;
    if (tile_.is_whole()) {
        if (offsets[begin] < offsets[end]) call(offsets[begin], offsets[end] - offsets[begin]);
        return;
    }
    const auto& boundaries = plan_->program().boundaries;
    tile_.for_stretches(boundaries[begin], boundaries[end],
                        [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) { call(in_x, bytes); });
}

bool StagedOps::may_run(dsl::OpId id, const std::vector<std::byte*>& areas) const {
    if (needs_all_input_ || !staging_->is_waiting()) return true;
    const dsl::RankProgram& program = plan_->program();
    const dsl::Op& op = program.ops[id];
    bool may = true;
    const auto look = [&](dsl::AreaId area, dsl::BoundaryId begin, dsl::BoundaryId end) {
        const dsl::AreaId memory = program.memory_of(area);
        if (memory > dsl::output_area && !program.keeps(memory)) return;
        for_places(begin, end, [&](std::uint64_t at, std::uint64_t bytes) {
            may = may && staging_->has_come(address(areas[area], at), bytes);
        });
    };
    for_reads(op, look);
    // In place, an operation writes where input may still be arriving.
    for_outputs(op, [&](dsl::BoundaryId begin, dsl::BoundaryId end) { look(dsl::output_area, begin, end); });
    return may;
}

void StagedOps::ran(dsl::OpId id) {
    if (needs_all_input_) return;
    const std::uint64_t origin = binding_->byte_offsets[plan_->program().output_origin];
    for_outputs(plan_->program().ops[id], [&](dsl::BoundaryId begin, dsl::BoundaryId end) {
        for (; begin < end; ++begin)
            if (--writers_[begin] == 0)
                for_places(begin, begin + 1, [&](std::uint64_t at, std::uint64_t bytes) {
                    staging_->finished(address(recv_, at - origin), bytes);
                });
    });
}

void StagedOps::finish(std::uint64_t output_bytes) {
    if (!needs_all_input_) return;
    if (tile_.is_whole()) return staging_->finished(recv_, output_bytes);
    if (output_bytes > 0)
        tile_.for_stretches(dsl::Rational(0), dsl::Rational(1),
                            [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) {
                                staging_->finished(recv_ + in_x, bytes);
                            });
}

}  // namespace hocket::engine
