#include "runtime/engine/run/graph_run.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/tiles.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

constexpr std::align_val_t memory_alignment{64};

// Returns a tag of 18 bits of the tile's sequence number and 24 of the message's number; what is left of
// transport::tag_bits is fabric_link.cpp's. Sequence numbers repeat after 2^18. An earlier message of the
// same number may still be in flight then, if nothing makes its sender wait for its receiver, but messages
// of one tag match in order.
std::uint64_t tag_of(std::uint64_t sequence, std::uint32_t message) {
    return (sequence & 0x3ffff) << 24 | message;
}

}  // namespace

GraphRun::GraphRun(const Plan& plan, Execution& execution) : plan_(&plan) {
    const auto& ops = plan.program().ops;
    waits_.resize(ops.size());
    transfer_of_.resize(ops.size());
    areas_.resize(plan.program().areas());
    for (dsl::OpId id = 0; id < ops.size(); ++id) {
        if (!ops[id].is_message()) continue;
        transfer_of_[id] = static_cast<std::uint32_t>(transfers_.size());
        transfers_.push_back({{}, &execution, id, segments_.size()});
        std::size_t segments = 0;
        for (std::size_t i = 0; i < ops[id].parts(); ++i) segments += most_segments(ops[id].part(i));
        segments_.resize(segments_.size() + segments);
    }
    for (Transfer& transfer : transfers_) transfer.message.user = &transfer;
    for (Queue* queue : {&receives_, &sends_, &local_}) queue->ops.reserve(ops.size());
    awaits_.reserve(ops.size());
}

GraphRun::~GraphRun() {
    free_memory();
}

// In a tile, each chunk of a part that lies in the caller's buffer may be a segment.
std::size_t GraphRun::most_segments(const dsl::MessagePart& part) const {
    const dsl::RankProgram& program = plan_->program();
    if (!can_be_divided(program) || !program.memory_is_shared || part.area > dsl::output_area) return 1;
    const auto chunk_at = [&](dsl::BoundaryId boundary) {
        return program.boundaries[boundary].offset(program.chunks);
    };
    return std::max<std::size_t>(1, chunk_at(part.end) - chunk_at(part.begin));
}

// Local peers can reach the window, so memory is taken from it if there are any.
void GraphRun::need_memory(std::uint64_t bytes) {
    if (bytes <= memory_bytes_) return;
    free_memory();
    memory_ = static_cast<std::byte*>(local_peers_ ? local_peers_->window().allocate(bytes, 64)
                                                   : ::operator new(bytes, memory_alignment));
    memory_bytes_ = bytes;
}

void GraphRun::free_memory() {
    if (memory_ == nullptr) return;
    if (local_peers_)
        local_peers_->window().release(memory_);
    else
        ::operator delete(memory_, memory_alignment);
    memory_ = nullptr;
    memory_bytes_ = 0;
}

void GraphRun::begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) {
    sequence_ = start.sequence + tile;
    checksum_ = start.checksum;
    const Tiling tiling =
        start.tiling.is_whole() ? Tiling(start.plan->elements_of_x(start.count)) : start.tiling;
    tile_ = Tile(tiling, tile, element_size(start.plan->type()));
    binding_ =
        start.plan->bind(start.uneven ? *start.uneven : Layout(tile_.elements()), start.arguments.get());
    arguments_ = start.arguments;
    local_peers_ = local_peers;
    direct_ = static_cast<DirectStart*>(start.direct);  // kernels have a run of their own
    send_ = start.send;
    recv_ = start.recv;
    factor_ = plan_->factor(start.factor);
    pieces_.reset();
    if (binding_->layout.is_by_pair()) pieces_.emplace(*plan_, *binding_);
    if (pieces_ && plan_->program().buffers == 1) pieces_->skip_to_lone_piece(send_, recv_);
    waits_ = binding_->waits;
    remaining_ = binding_->remaining;
    is_done_ = remaining_ == 0;
    disagreement_.reset();
    for (Queue* queue : {&receives_, &sends_, &local_}) queue->clear();
    awaits_.clear();
    state_ = is_done_ || binding_->count == 0 ? nullptr : start.plan->state();
    if (state_) {
        state_->prepare(binding_->count);
        state_turn_ = state_->take_turn();
    }
    make_copies();
    if (pieces_) pieces_->read_from(send_, copies_[dsl::input_area]);
    place_areas();
    const bool needs_all_input = local_peers || copies_[dsl::input_area] || pieces_;
    staged_.begin(start.staging, *plan_, *binding_, tile_, recv_, needs_all_input);
    entered_ = !local_peers && !(needs_all_input && start.staging);
    if (entered_ && copies_[dsl::input_area]) move_copies(dsl::input_area);
    for (const dsl::OpId op : binding_->ready) enqueue(op);
}

void GraphRun::release() {
    arguments_.reset();
    if (state_) std::exchange(state_, nullptr)->fail_turn();
    pieces_.reset();
    binding_.reset();
}

void GraphRun::place_areas() {
    const dsl::RankProgram& program = plan_->program();
    const auto& offsets = binding_->byte_offsets;
    const auto own = [&](dsl::AreaId area, const std::byte* buffer) {
        return copies_[area] && !works_beside_copy(area) ? copies_[area] : buffer;
    };
    areas_[dsl::input_area] = virtual_base(own(dsl::input_area, send_), offsets[program.input_origin]);
    areas_[dsl::output_area] = virtual_base(own(dsl::output_area, recv_), offsets[program.output_origin]);
    holds_x_.assign(areas_.size(), false);
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area})
        holds_x_[area] = !tile_.is_whole() && (!copies_[area] || works_beside_copy(area));
    std::byte* const memory = direct_ ? direct_->memory() : memory_;
    areas_[dsl::work_area] = memory;
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas_[program.first_scratch() + i] =
            virtual_base(address(memory, binding_->slot_offsets[i]), offsets[program.scratch[i].begin]);
    if (program.kept > 0) place_kept();
    if (pieces_)
        pieces_->place_own(areas_.data());
    else
        place_shifted(program, offsets.data(), areas_.data());
}

void GraphRun::place_kept() {
    const dsl::RankProgram& program = plan_->program();
    std::size_t given = 0;
    for (std::size_t i = 0; i < program.extras.size(); ++i) {
        const dsl::ProgramBuffer& extra = program.extras[i];
        if (extra.area < 0) continue;
        std::byte*& area = areas_[program.first_kept() + static_cast<dsl::AreaId>(extra.area)];
        if (extra.buffer.kind == dsl::ExtraBuffer::Kind::given) {
            area = const_cast<std::byte*>(arguments_->given[given++]);
        } else if (state_) {
            const std::uint64_t begin = binding_->extras.region(i, {program.rank}).begin;
            area =
                virtual_base(state_->memory(i), begin * element_size(compute::working_type(plan_->type())));
        }
    }
}

void GraphRun::compute(dsl::OpId id) {
    static const compute::Arguments none;
    plan_->computer()->run(id, {binding_->byte_offsets.data(), binding_->extras, areas_.data(),
                                arguments_ ? *arguments_ : none, state_ ? state_->starts() : sequence_});
}

void GraphRun::enqueue(dsl::OpId id) {
    const dsl::Op& op = plan_->program().ops[id];
    if (op.kind == Kind::await) return awaits_.push_back(id);
    Queue& queue = !binding_->travels(op) ? local_ : op.kind == Kind::receive ? receives_ : sends_;
    queue.ops.push_back(id);
}

void GraphRun::complete(dsl::OpId id) {
    waits_[id] = Binding::complete;
    is_done_ = --remaining_ == 0;
    if (is_done_ && copies_[dsl::output_area]) move_copies(dsl::output_area);
    if (is_done_ && state_) std::exchange(state_, nullptr)->end_turn();
    if (staged_) staged_.ran(id);
    if (staged_ && is_done_) staged_.finish(bytes_spanned(dsl::output_area));
    for (const dsl::OpId next : plan_->program().ops[id].successors)
        if (!follows_on_stream(id, next)) release_successor(next);
}

void GraphRun::release_successor(dsl::OpId id) {
    if (--waits_[id] == 0) enqueue(id);
}

bool GraphRun::advance(transport::Fabric* fabric, std::uint64_t& budget) {
    bool did_something = false;
    if (state_ && !state_->is_turn(state_turn_)) return false;
    if (!entered_) {
        if (!enter(budget)) return false;
        did_something = true;
    }
    if (direct_) did_something |= end_on_device();
    if (!awaits_.empty()) did_something |= look_for_local_peers();
    do {
        // Receives are posted first: a message that finds its receive posted is not copied twice.
        did_something |= post(receives_, fabric);
        did_something |= post(sends_, fabric);
        if (local_.empty()) break;
        const dsl::OpId id = local_.ops[local_.head];
        if (staged_ && !staged_.may_run(id, areas_)) break;
        if (!run_or_post(plan_->program().ops[id], id, budget)) break;
        ++local_.head;
        did_something = true;
    } while (budget > 0);
    if (direct_) direct_->executor().flush();
    return did_something;
}

// Returns false if the operation cannot be posted.
bool GraphRun::run_or_post(const dsl::Op& op, dsl::OpId id, std::uint64_t& budget) {
    if (direct_ && DeviceExecutor::runs(op)) return post_on_device(id);
    const std::uint64_t bytes = binding_->bytes_of(op);
    if (op.kind == Kind::signal)
        local_peers_->signal(sequence_, 0, op.message);
    else if (bytes > 0)
        run_local(op, id);
    complete(id);
    budget -= std::min(budget, bytes);
    return true;
}

// Also posts copies without elements: they must not end before those that they follow.
bool GraphRun::post_on_device(dsl::OpId id) {
    if (!direct_->executor().has_room()) return false;  // later, once some copies have ended
    if (!direct_->executor().post(id, areas_.data(), binding_->byte_offsets.data(), *local_peers_))
        return false;
    for (const dsl::OpId next : plan_->program().ops[id].successors)
        if (follows_on_stream(id, next)) release_successor(next);
    return true;
}

bool GraphRun::end_on_device() {
    bool ended = false;
    while (const auto id = direct_->executor().next_ended(*local_peers_)) {
        complete(*id);
        ended = true;
    }
    return ended;
}

// Returns true if both are copies on the device's stream, which runs them one after the other: the later one
// may be posted as soon as the earlier one is. Signals wait for its end.
bool GraphRun::follows_on_stream(dsl::OpId earlier, dsl::OpId later) const {
    const auto& ops = plan_->program().ops;
    return direct_ && DeviceExecutor::runs(ops[earlier]) && DeviceExecutor::runs(ops[later]);
}

void GraphRun::run_local(const dsl::Op& op, dsl::OpId id) {
    if (op.kind == Kind::compute) return compute(id);
    if (!tile_.is_whole()) return run_by_chunks(op, id);
    std::byte* const output = areas_[dsl::output_area];
    areas_[dsl::output_area] = address(output, shift_of(dsl::output_area, op.begin));
    plan_->executor().run(id, areas_.data(), binding_->byte_offsets.data());
    areas_[dsl::output_area] = output;
}

// In buffers that hold x, the stretches of a tile's chunks are not contiguous.
void GraphRun::run_by_chunks(const dsl::Op& op, dsl::OpId id) {
    const auto& boundaries = plan_->program().boundaries;
    areas_of_x_.clear();
    const auto look = [&](dsl::AreaId area) {
        if (holds_x_[area]) areas_of_x_.push_back(area);
    };
    look(op.area);
    for (const auto* areas : {&op.also, &op.operands}) std::for_each(areas->begin(), areas->end(), look);
    if (areas_of_x_.empty()) return plan_->executor().run(id, areas_.data(), binding_->byte_offsets.data());
    chunk_areas_ = areas_;
    chunk_offsets_ = binding_->byte_offsets;
    tile_.for_stretches(boundaries[op.begin], boundaries[op.end],
                        [&](std::uint64_t in_tile, std::uint64_t place_in_x, std::uint64_t bytes) {
                            for (const dsl::AreaId area : areas_of_x_)
                                chunk_areas_[area] = address(areas_[area], place_in_x - in_tile);
                            chunk_offsets_[op.begin] = in_tile;
                            chunk_offsets_[op.end] = in_tile + bytes;
                            plan_->executor().run(id, chunk_areas_.data(), chunk_offsets_.data());
                        });
}

bool GraphRun::post(Queue& queue, transport::Fabric* fabric) {
    bool posted = false;
    for (; !queue.empty(); ++queue.head, posted = true) {
        const dsl::OpId id = queue.ops[queue.head];
        if (staged_ && !staged_.may_run(id, areas_)) break;
        if (!post_one(plan_->program().ops[id], id, *fabric)) break;  // no room: try after the next poll
    }
    return posted;
}

bool GraphRun::post_one(const dsl::Op& op, dsl::OpId id, transport::Fabric& fabric) {
    Transfer& transfer = transfers_[transfer_of_[id]];
    std::span<const transport::Segment> segments = segments_of(op, transfer);
    const std::uint64_t tag = tag_of(sequence_, op.message);
    const bool has_none = segments.empty();
    if (has_none) {
        segments_[transfer.first_segment] = {&nothing_, 1};
        segments = {&segments_[transfer.first_segment], 1};
    }
    if (op.kind == Kind::send)
        return fabric.send(op.peer, tag, has_none ? checksum_of_none(checksum_) : checksum_, segments,
                           transfer.message);
    return fabric.receive(op.peer, tag, segments, transfer.message);
}

// Returns the segments of a message. Parts that are empty for this count are left out.
std::span<const transport::Segment> GraphRun::segments_of(const dsl::Op& op, const Transfer& transfer) {
    transport::Segment* const first = &segments_[transfer.first_segment];
    transport::Segment* next = first;
    for (std::size_t i = 0; i < op.parts(); ++i) {
        const dsl::MessagePart part = op.part(i);
        const std::uint64_t begin = binding_->byte_offsets[part.begin],
                            end = binding_->byte_offsets[part.end];
        if (holds_x_[part.area]) {
            const auto& boundaries = plan_->program().boundaries;
            tile_.for_stretches(boundaries[part.begin], boundaries[part.end],
                                [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) {
                                    *next++ = {address(areas_[part.area], in_x), bytes};
                                });
            continue;
        }
        const std::uint64_t shift = shift_of(part.area, part.begin);
        if (begin < end) *next++ = {address(areas_[part.area], begin + shift), end - begin};
    }
    return {first, next};
}

// ---- Among local peers ---------------------------------------------------------------------------

std::uint64_t GraphRun::bytes_of_buffer(dsl::AreaId area) const {
    const dsl::RankProgram& program = plan_->program();
    const Layout& layout = binding_->layout;
    if (pieces_) return pieces_->bytes(area);
    const std::uint64_t whole = binding_->count * element_size(plan_->type());
    switch (area == dsl::input_area ? program.input() : program.output()) {
        case dsl::Share::none:
            return 0;
        case dsl::Share::own:
            return layout.piece_count(program.rank, program.ranks) * element_size(plan_->type());
        case dsl::Share::whole:
            break;
    }
    return whole;
}

// Returns the bytes from the beginning of the caller's buffer to the end of its data.
std::uint64_t GraphRun::bytes_spanned(dsl::AreaId area) const {
    if (!tile_.is_whole() && bytes_of_buffer(area) > 0) return tile_.bytes_of_x();
    return pieces_ ? pieces_->bytes_spanned(area) : bytes_of_buffer(area);
}

// Allocates copies of the buffers that local peers use but cannot reach, in memory that they can reach. Also
// copies an input that is multiplied, or that overlaps the output although it must not.
void GraphRun::make_copies() {
    copies_[dsl::input_area] = copies_[dsl::output_area] = nullptr;
    contacts_.assign(local_peers_ ? static_cast<std::size_t>(local_peers_->members()) : 0, false);
    if (direct_) return;  // local peers reach all of it
    const dsl::RankProgram& program = plan_->program();
    const std::uint64_t input = bytes_of_buffer(dsl::input_area), output = bytes_of_buffer(dsl::output_area);
    const std::uint64_t shown = local_peers_ && pieces_ ? PairPieces::shown_bytes(*local_peers_) : 0;
    bool copies_input = plan_->must_copy_input(send_, recv_, binding_->layout), copies_output = false;
    if (local_peers_) {
        transport::Window& window = local_peers_->window();
        const bool reads_send = program.input() != dsl::Share::none;
        const bool shows_copies = program.protocol == dsl::Protocol::latency;
        copies_input |= reads_send &&
                        (shows_copies ||
                         (program.shares_input && !window.offset_of(send_, bytes_spanned(dsl::input_area))));
        copies_output =
            program.shares_output && !window.offset_of(recv_, tile_.is_whole() ? output : tile_.bytes_of_x());
    }
    const std::uint64_t begin = (binding_->memory_bytes + shown + 63) / 64 * 64,
                        middle = begin + (input + 63) / 64 * 64;
    const std::uint64_t bytes = copies_output ? middle + output : copies_input ? middle : begin;
    need_memory(local_peers_ ? std::max<std::uint64_t>(64, bytes) : bytes);
    copies_[dsl::input_area] = copies_input ? memory_ + begin : nullptr;
    copies_[dsl::output_area] = copies_output ? memory_ + middle : nullptr;
}

// Returns true if this rank itself can work on the caller's buffers, so that only the parts that local peers
// touch are copied. It can if no rank reads the others' part of the output; but not for an input whose copy
// is multiplied.
bool GraphRun::works_beside_copy(dsl::AreaId area) const {
    const dsl::RankProgram& program = plan_->program();
    if (area == dsl::input_area && plan_->multiplies()) return false;
    return !contract_of(program.collective).is_by_rank() && program.keeps_places() &&
           program.protocol == dsl::Protocol::bandwidth && program.output_is_apart;
}

// Copies between the caller's buffer and its copy. Returns the bytes copied.
std::uint64_t GraphRun::move_copies(dsl::AreaId area) {
    const bool is_input = area == dsl::input_area;
    if (bytes_of_buffer(area) == 0) return 0;
    if (pieces_) return pieces_->fill_copy(factor_, copy_is_read_by());
    std::uint64_t moved = 0;
    const auto move = [&](std::uint64_t in_copy, std::uint64_t in_buffer, std::uint64_t bytes) {
        if (is_input)
            copy_input(*plan_, factor_, copies_[area] + in_copy, send_ + in_buffer, bytes, copy_is_read_by());
        else
            std::memcpy(recv_ + in_buffer, copies_[area] + in_copy, bytes);
        moved += bytes;
    };
    const dsl::RankProgram& program = plan_->program();
    const bool is_part = works_beside_copy(area);
    if (!is_part && tile_.is_whole()) {
        move(0, 0, bytes_of_buffer(area));
    } else if (!is_part) {
        tile_.for_stretches(dsl::Rational(0), dsl::Rational(1), move);
    } else {
        for (const dsl::Stretch& touched : is_input ? program.input_read : program.output_written)
            tile_.for_stretches(program.boundaries[touched.begin], program.boundaries[touched.end], move);
    }
    return moved;
}

bool GraphRun::enter(std::uint64_t& budget) {
    if (local_peers_ && !local_peers_->is_free(sequence_)) return false;
    if (staged_ && !(input_has_come() && staged_.further_has_come())) return false;
    const std::uint64_t bytes = local_peers_               ? show_buffers()
                                : copies_[dsl::input_area] ? move_copies(dsl::input_area)
                                                           : 0;
    budget -= std::min(budget, bytes);
    return entered_ = true;
}

bool GraphRun::input_has_come() const {
    if (tile_.is_whole()) return staged_.has_come(send_, bytes_spanned(dsl::input_area));
    bool has = true;
    if (bytes_of_buffer(dsl::input_area) > 0)
        tile_.for_stretches(dsl::Rational(0), dsl::Rational(1),
                            [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) {
                                has = has && staged_.has_come(send_ + in_x, bytes);
                            });
    return has;
}

// Publishes this rank's buffers. Returns the bytes that were copied.
std::uint64_t GraphRun::show_buffers() {
    const std::uint64_t bytes = copies_[dsl::input_area] ? move_copies(dsl::input_area) : 0;
    LocalPeers::Line& line = local_peers_->line(local_peers_->self(), sequence_);
    if (!direct_) show_areas(line);  // else it has shown them already
    line.completed = local_peers_->completed();
    line.checksum = checksum_;
    return bytes;
}

void GraphRun::show_areas(LocalPeers::Line& line) {
    const transport::Window& window = local_peers_->window();
    const dsl::RankProgram& program = plan_->program();
    const dsl::BoundaryId origins[] = {program.input_origin, program.output_origin};
    const bool is_shared[] = {program.shares_input, program.shares_output};
    const std::byte* buffers[] = {send_, recv_};
    line.extents = {};
    line.in_windows = 0;
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area}) {
        if (!is_shared[area]) continue;
        const auto offset = copies_[area] ? window.offset_of(copies_[area], bytes_of_buffer(area))
                                          : window.offset_of(buffers[area], bytes_spanned(area));
        line.show(area, offset.value_or(0), binding_->byte_offsets[origins[area]]);
        if (!copies_[area]) line.in_windows |= LocalPeers::Line::bit_of(area);
    }
    if (program.shares_work || pieces_)
        line.show(dsl::work_area, window.offset_of(memory_, memory_bytes_).value(), 0);
    if (pieces_) pieces_->show(*local_peers_, memory_);
}

bool GraphRun::look_for_local_peers() {
    bool moved = false;
    for (std::size_t i = 0; i < awaits_.size() && !disagreement_;) {
        const dsl::OpId id = awaits_[i];
        const dsl::Op& op = plan_->program().ops[id];
        if (!local_peers_->is_there(local_peers_->member_of(op.peer), sequence_, 0, op.message) ||
            !contact(op, id)) {
            ++i;
            continue;
        }
        awaits_.erase(awaits_.begin() + static_cast<std::ptrdiff_t>(i));
        complete(id);
        moved = true;
    }
    return moved;
}

// Call at the first look at a local peer's line, which says where its areas are. Returns false if the local
// peer has started something else.
bool GraphRun::contact(const dsl::Op& op, dsl::OpId id) {
    const Member member = local_peers_->member_of(op.peer);
    if (contacts_[static_cast<std::size_t>(member)]) return true;
    if (!local_peers_->agrees(member, sequence_, checksum_)) {
        disagreement_ = {id, op.peer};
        return false;
    }
    const std::uint8_t in_windows = local_peers_->line(member, sequence_).in_windows;
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area, dsl::work_area}) {
        const dsl::AreaId theirs = local_peers_->area_of(member, area);
        areas_[theirs] = direct_ ? direct_->base(theirs) : local_peers_->base(member, sequence_, area);
        holds_x_[theirs] = !tile_.is_whole() && (in_windows & LocalPeers::Line::bit_of(area)) != 0;
    }
    if (!pieces_) {
        place_shifted(plan_->program(), binding_->byte_offsets.data(), areas_.data());
    } else if (const auto difference = pieces_->find(*local_peers_, member, areas_.data())) {
        disagreement_ = {id, op.peer, difference};
        return false;
    }
    contacts_[static_cast<std::size_t>(member)] = true;
    return true;
}

std::optional<dsl::OpId> GraphRun::first_incomplete() const {
    for (dsl::OpId id = 0; id < waits_.size(); ++id)
        if (!is_complete(id)) return id;
    return std::nullopt;
}

}  // namespace hocket::engine
