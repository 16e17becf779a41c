#include "tests/multi/soak/operation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "capi/vocabulary.hpp"
#include "tools/bench/comm.hpp"
#include "tools/bench/runner.hpp"

namespace hocket::soak {
namespace {

constexpr unsigned char guard_byte = 0x5a, poison_byte = 0xa5;

std::vector<const char*> schedules_for(hkt_collective collective, int ranks) {
    std::vector<const char*> names{"default", "direct"};
    const auto add = [&](std::initializer_list<const char*> more) { names.insert(names.end(), more); };
    const bool is_power = std::has_single_bit(static_cast<unsigned>(ranks));
    switch (collective) {
        case HKT_ALL_REDUCE:
            add({"ring", "flat", "flat(direct, ring)", "exchange", "blueconnect", "bml", "sharded",
                 "nested"});
            if (is_power) add({"halving", "butterfly", "flat(ring, doubling)"});
            break;
        case HKT_REDUCE_SCATTER:
            add({"ring", "blueconnect"});
            if (is_power) add({"halving"});
            break;
        case HKT_ALL_GATHER:
            add({"ring", "blueconnect"});
            if (is_power) add({"doubling"});
            break;
        case HKT_BROADCAST:
            add({"binomial", "tree", "chain", "chain(3)", "scatter"});
            break;
        case HKT_REDUCE:
            add({"binomial", "tree", "rabenseifner"});
            break;
        case HKT_GATHER:
        case HKT_SCATTER:
            add({"binomial"});
            break;
        case HKT_ALL_TO_ALL:
            add({"pairwise", "bruck"});
    }
    return names;
}

}  // namespace

std::vector<hkt_op> ops_for(const bench::Subject& subject, hkt_type type) {
    if (!subject.contract().combines()) return {capi::all_ops[0]};
    std::vector<hkt_op> ops;
    for (const hkt_op op : capi::all_ops)
        if (hkt_op_supports(op, type)) ops.push_back(op);
    return ops;
}

std::vector<bench::Subject> all_collectives() {
    std::vector<bench::Subject> collectives;
    for (const bench::Subject& subject : bench::all_subjects())
        if (!subject.is_messages()) collectives.push_back(subject);
    return collectives;
}

std::vector<std::size_t> any_pieces(Chance& chance, std::size_t count, int ranks) {
    std::vector<std::size_t> ends{0, count};
    for (int cut = 1; cut < ranks; ++cut) {
        const std::size_t end = chance.one_in(3) ? chance.one_of(ends) : chance.below(count + 1);
        ends.push_back(end);
    }
    std::ranges::sort(ends);
    std::vector<std::size_t> pieces;
    for (std::size_t i = 1; i < ends.size(); ++i) pieces.push_back(ends[i] - ends[i - 1]);
    return pieces;
}

Operation Operation::random(Chance& chance, int rank, int ranks, std::size_t most_bytes,
                            std::uint64_t planned_one_in) {
    Operation operation;
    const bench::Subject subject = chance.one_of(all_collectives());
    const hkt_type type = chance.one_of(capi::all_types);
    const hkt_op op = chance.one_of(ops_for(subject, type));
    const int root = subject.contract().has_root() ? static_cast<int>(chance.below(ranks)) : 0;
    const bool is_largest = chance.one_in(20);
    const std::size_t bytes = is_largest ? most_bytes : chance.log_uniform(most_bytes);
    operation.layout = bench::layout_for(subject, type, op, root, rank, ranks, bytes);
    if (subject.has_counts()) operation.layout.divide(any_pieces(chance, operation.layout.count, ranks));
    if (subject.has_plans() && chance.one_in(planned_one_in)) {
        operation.schedule = chance.one_of(schedules_for(subject.collective, ranks));
        operation.executor = chance.one_in(4) ? HKT_EXECUTOR_INTERPRETER : HKT_EXECUTOR_DEFAULT;
    }
    operation.values = chance.number();
    return operation;
}

std::string Operation::text() const {
    std::string text =
        fmt::format("{} of {} {}", layout.subject.name(), layout.count, hkt_type_name(layout.type));
    if (layout.subject.has_counts()) text += fmt::format(" ({})", fmt::join(layout.counts, " + "));
    if (layout.contract().combines()) text += fmt::format(" {}", hkt_op_name(layout.op));
    if (layout.contract().has_root())
        text += fmt::format(" {} {}", layout.contract().spreads() ? "from" : "to", layout.root);
    if (schedule) text += fmt::format(" by {}", schedule);
    if (executor == HKT_EXECUTOR_INTERPRETER) text += " (interpreter)";
    return text;
}

hkt_status call_function(const bench::Layout& layout, const void* send, void* recv, hkt_comm* comm,
                         hkt_request** request) {
    const bench::Operator op(comm, layout.op);
    return bench::call_function(layout, op.given(), send, recv, comm, request);
}

Placed::Placed(const Operation& operation, void* from, void* to, bool in_place, Chance& chance)
    : operation_(operation), in_place_(in_place) {
    const bench::Layout& layout = operation.layout;
    if (in_place) {
        const std::size_t element = hkt_type_size(layout.type);
        to_ = block(to, layout.larger_count(), chance);
        send_ = to_.data + layout.send_offset_in_place() * element;
        recv_ = to_.data + layout.recv_offset_in_place() * element;
    } else {
        from_ = block(from, layout.send_count(), chance);
        to_ = block(to, layout.most_recv_count(), chance);
        send_ = from_.data;
        recv_ = to_.data;
    }
    if (layout.sends())
        bench::fill_input(layout, operation.values, send_);
    else if (chance.one_in(2))
        send_ = nullptr;
    if (!layout.receives() && chance.one_in(2)) recv_ = nullptr;
}

Placed::Block Placed::block(void* memory, std::size_t elements, Chance& chance) const {
    const std::size_t element = hkt_type_size(operation_.layout.type);
    const Block block{static_cast<unsigned char*>(memory) + guard_bytes +
                          (chance.one_in(2) ? 0 : chance.below(alignment / element) * element),
                      elements * element};
    block.guard();
    return block;
}

void Placed::Block::guard() const {
    std::fill(data - guard_bytes, data, guard_byte);
    std::fill(data, data + bytes, poison_byte);
    std::fill(data + bytes, data + bytes + guard_bytes, guard_byte);
}

std::string Placed::Block::fault(const char* name) const {
    if (!data) return "";
    for (std::size_t i = 0; i < guard_bytes; ++i) {
        if (data[bytes + i] != guard_byte)
            return fmt::format("byte {} behind the {} buffer was overwritten", i, name);
        if (data[-1 - static_cast<std::ptrdiff_t>(i)] != guard_byte)
            return fmt::format("byte {} before the {} buffer was overwritten", i, name);
    }
    return "";
}

bool Placed::Block::is_overwritten_outside(bench::Range used) const {
    const auto is_other = [](unsigned char byte) { return byte != poison_byte; };
    return std::any_of(data, data + used.begin, is_other) ||
           std::any_of(data + used.end, data + bytes, is_other);
}

std::string Placed::fault() const {
    const bench::Layout& layout = operation_.layout;
    if (const auto wrong = bench::count_wrong(layout, operation_.values, recv_)) {
        const auto first = bench::first_wrong(layout, operation_.values, recv_);
        return fmt::format("{} of {} elements are wrong; the first is element {}: {}, expected {}", wrong,
                           layout.recv_count(), first->index, first->found, first->expected);
    }
    if (const auto fault = from_.fault("send"); !fault.empty()) return fault;
    if (const auto fault = to_.fault("recv"); !fault.empty()) return fault;
    const std::size_t element = hkt_type_size(layout.type);
    const bench::Range used = in_place_ ? layout.used_in_place() : bench::Range{0, layout.recv_count()};
    if (to_.is_overwritten_outside({used.begin * element, used.end * element}))
        return "the recv buffer was overwritten beside the result";
    if (!layout.sends()) return "";
    const auto changed = bench::count_overwritten(layout, operation_.values, send_,
                                                  in_place_ ? layout.covered_in_place() : bench::Range{});
    return changed == 0 ? "" : fmt::format("{} elements of what was sent were overwritten", changed);
}

}  // namespace hocket::soak
