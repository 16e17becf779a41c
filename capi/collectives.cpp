#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "capi/growth.hpp"
#include "capi/handles.hpp"
#include "capi/vocabulary.hpp"
#include "dsl/planning/compile.hpp"

using namespace hocket;

namespace {

using dsl::Collective;

void check_comm(const hkt_comm* comm, const char* function) {
    if (comm == nullptr) capi::refuse(fmt::format("{}: comm is null", function));
}

[[noreturn, gnu::cold]] void refuse_buffer(const char* name, const void* buffer, DataType type) {
    if (buffer == nullptr) capi::refuse(fmt::format("{} is null, but the count is not 0", name));
    capi::refuse(capi::not_aligned(name, type));
}

inline void check_buffer(const char* name, const void* buffer, const engine::Plan& plan) {
    const bool is_aligned = (reinterpret_cast<std::uintptr_t>(buffer) & (plan.element() - 1)) == 0;
    if (buffer == nullptr || !is_aligned) refuse_buffer(name, buffer, plan.type());
}

// What this rank sends to `peer`, or receives from it.
struct PairPiece {
    std::uintptr_t begin, end;
    bool is_received;
    int peer;
};

[[noreturn]] void refuse_overlap(const PairPiece& received, const PairPiece& other) {
    if (other.is_received)
        capi::refuse(fmt::format("what is received from rank {} overlaps what is received from rank {}",
                                 received.peer, other.peer));
    capi::refuse(
        fmt::format("what is received from rank {} overlaps what is sent to rank {}, but this is not the "
                    "in-place form: that "
                    "is send == recv, with the same counts and displacements for both",
                    received.peer, other.peer));
}

// A piece that is received may overlap nothing else.
void check_apart(std::vector<PairPiece>& pieces) {
    std::sort(pieces.begin(), pieces.end(),
              [](const PairPiece& a, const PairPiece& b) { return a.begin < b.begin; });
    const PairPiece *sent = nullptr, *received = nullptr;  // those so far that reach furthest
    for (const PairPiece& piece : pieces) {
        if (received && piece.begin < received->end) refuse_overlap(*received, piece);
        if (piece.is_received && sent && piece.begin < sent->end) refuse_overlap(piece, *sent);
        const PairPiece*& furthest = piece.is_received ? received : sent;
        if (!furthest || furthest->end < piece.end) furthest = &piece;
    }
}

// Refuses a displacement that takes its piece beyond what memory can hold. layout: that of all pieces.
void check_places(const engine::Plan& plan, const Layout& layout) {
    const std::uint64_t most = plan.most_elements();
    if (layout.count() <= most) return;
    for (int rank = 0; rank < plan.program().ranks; ++rank)
        for (const bool is_received : {false, true}) {
            const std::uint64_t count = is_received ? layout.received_from(rank) : layout.sent_to(rank),
                                place = is_received ? layout.place_received_from(rank)
                                                    : layout.place_sent_to(rank),
                                packed = is_received ? layout.begin_received_from(rank)
                                                     : layout.begin_sent_to(rank);
            if (count > 0 && place != packed && place + count > most)
                capi::refuse(
                    fmt::format("{}, which does not fit in memory (at most {} {} elements)",
                                describe_piece(is_received, static_cast<std::size_t>(rank), place, count),
                                most, name_of(plan.type())));
        }
    plan.elements_of_x(layout.count());  // throws: the counts are too large
}

// Like check_buffers, where each pair of ranks has a count of its own.
void check_pairs(const engine::Plan& plan, const void* send, const void* recv, const Layout& layout) {
    const std::uint64_t element = element_size(plan.type());
    check_places(plan, layout);
    if (layout.received().count > 0) check_buffer("recv", recv, plan);
    if (layout.sent().count > 0) check_buffer("send", send, plan);
    const auto from = reinterpret_cast<std::uintptr_t>(send), to = reinterpret_cast<std::uintptr_t>(recv);
    bool in_place = send == recv, is_packed = true;
    for (int rank = 0; rank < plan.program().ranks; ++rank) {
        in_place &= layout.sent_to(rank) == layout.received_from(rank) &&
                    layout.place_sent_to(rank) == layout.place_received_from(rank);
        is_packed &= layout.place_received_from(rank) == layout.begin_received_from(rank);
    }
    const bool is_apart =
        from + layout.sent().span * element <= to || to + layout.received().span * element <= from;
    if (is_packed && (in_place || is_apart)) return;
    std::vector<PairPiece> pieces;
    const auto add = [&](std::uintptr_t buffer, std::uint64_t place, std::uint64_t count, bool is_received,
                         int peer) {
        const std::uintptr_t begin = buffer + place * element;
        if (count > 0) pieces.push_back({begin, begin + count * element, is_received, peer});
    };
    for (int rank = 0; rank < plan.program().ranks; ++rank) {
        add(to, layout.place_received_from(rank), layout.received_from(rank), true, rank);
        if (!in_place && !is_apart) add(from, layout.place_sent_to(rank), layout.sent_to(rank), false, rank);
    }
    check_apart(pieces);
}

// "recv + 4 elements (16 bytes)", "recv"
std::string relative_to_recv(std::uintptr_t address, std::uintptr_t recv, std::uint64_t element) {
    if (address == recv) return "recv";
    const std::uintptr_t bytes = address < recv ? recv - address : address - recv;
    return fmt::format("recv {} {} element{} ({} bytes)", address < recv ? '-' : '+', bytes / element,
                       bytes == element ? "" : "s", bytes);
}

// Refuses buffers that are null, or that overlap in a way that would silently give wrong results. What this
// costs shows in small starts: where all pieces are alike, no layout is made for it.
void check_buffers(const engine::Plan& plan, const void* send, const void* recv, engine::Extent extent) {
    if (plan.is_by_pair()) return check_pairs(plan, send, recv, *extent.uneven);
    const std::uint64_t element = plan.element(), all = element * plan.elements_of_x(extent.count);
    const std::uint64_t own =
        element * (extent.uneven ? extent.uneven->piece_count(plan.program().rank, plan.program().ranks)
                                 : extent.count);
    const dsl::Share input = plan.input(), output = plan.output();
    const auto bytes_of = [&](dsl::Share share) {
        return share == dsl::Share::none ? 0 : share == dsl::Share::own ? own : all;
    };
    const std::uint64_t sent = bytes_of(input), received = bytes_of(output);
    if (received > 0) check_buffer("recv", recv, plan);
    if (sent > 0) check_buffer("send", send, plan);
    if (sent == 0 || received == 0) return;

    // A call is in place if each element of x has the same address in send and in recv.
    const auto from = reinterpret_cast<std::uintptr_t>(send), to = reinterpret_cast<std::uintptr_t>(recv);
    if (from >= to + received || to >= from + sent) return;
    const dsl::RankProgram& program = plan.program();
    const std::uint64_t before = extent.uneven
                                     ? element * extent.uneven->piece_begin(program.rank, program.ranks)
                                     : static_cast<std::uint64_t>(program.rank) * own;
    const auto skipped = [&](dsl::Share share) { return share == dsl::Share::own ? before : 0; };  // of x
    const std::uintptr_t in_place = to - skipped(output) + skipped(input);
    if (from != in_place)
        capi::refuse(fmt::format(
            "send and recv overlap, but this is not the in-place form: on rank {} send must be {} then, and "
            "is {}",
            program.rank, relative_to_recv(in_place, to, element), relative_to_recv(from, to, element)));
}

hkt_status start(hkt_comm* comm, const std::shared_ptr<engine::StartablePlan>& plan, const void* send,
                 void* recv, double factor, engine::Extent extent, hkt_request** request) {
    check_buffers(*plan, send, recv, extent);
    if (request == nullptr) {
        comm->engine->run(plan, send, recv, extent, factor);
    } else {
        engine::Execution& execution = comm->engine->start(plan, send, recv, extent, factor);
        execution.user = comm;
        *request = capi::handle(execution);
    }
    return HKT_SUCCESS;
}

// A collective that its own function starts. factor: for an operator that multiplies.
struct Call {
    engine::PlanChoice choice;
    double factor = 1;
};

hkt_status start(hkt_comm* comm, const Call& call, const void* send, void* recv, std::size_t count,
                 hkt_request** request) {
    if (request != nullptr) *request = nullptr;
    return start(comm, comm->engine->cached_plan(call.choice, count), send, recv, call.factor, count,
                 request);
}

// Starts a collective whose pieces have different counts.
hkt_status start_uneven(hkt_comm* comm, Call call, const void* send, void* recv, const Layout& layout,
                        hkt_request** request) {
    if (request != nullptr) *request = nullptr;
    call.choice.is_uneven = true;
    return start(comm, comm->engine->cached_plan(call.choice, layout), send, recv, call.factor,
                 engine::Extent(layout), request);
}

Call moving(Collective collective, const hkt_type& type, int root = 0) {
    return {{.collective = collective, .type = capi::type_of(type), .root = root}};
}

Call combining(const hkt_comm& comm, Collective collective, const hkt_type& type, const hkt_op& op,
               int root = 0) {
    const DataType row = capi::type_of(type);
    const auto [reduction, factor] = capi::operator_of(op, row, comm.operators);
    return {{.collective = collective, .type = row, .op = reduction, .root = root}, factor};
}

// One number for each rank; none if `given` is null, as displacements may be.
std::vector<std::uint64_t> numbers(const hkt_comm* comm, const std::size_t* given) {
    if (given == nullptr) return {};
    return {given, given + comm->engine->size()};
}
std::vector<std::uint64_t> counts_of(const hkt_comm* comm, const std::size_t* given, const char* name) {
    if (given == nullptr)
        capi::refuse(fmt::format("{} is null; it must point to one count for each rank", name));
    return numbers(comm, given);
}

// counts: those of all ranks.
hkt_status start_uneven(hkt_comm* comm, const Call& call, const void* send, void* recv,
                        const std::size_t* counts, hkt_request** request) {
    if (request != nullptr) *request = nullptr;
    return start_uneven(comm, call, send, recv, Layout(counts_of(comm, counts, "counts")), request);
}

}  // namespace

extern "C" {

hkt_status hkt_all_reduce(const void* send, void* recv, size_t count, hkt_type type, hkt_op op,
                          hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_all_reduce");
        return start(comm, combining(*comm, Collective::all_reduce, type, op), send, recv, count, request);
    });
}

hkt_status hkt_reduce_scatter(const void* send, void* recv, size_t recv_count, hkt_type type, hkt_op op,
                              hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_reduce_scatter");
        return start(comm, combining(*comm, Collective::reduce_scatter, type, op), send, recv, recv_count,
                     request);
    });
}

hkt_status hkt_all_gather(const void* send, void* recv, size_t send_count, hkt_type type, hkt_comm* comm,
                          hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_all_gather");
        return start(comm, moving(Collective::all_gather, type), send, recv, send_count, request);
    });
}

hkt_status hkt_broadcast(const void* send, void* recv, size_t count, hkt_type type, int32_t root,
                         hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_broadcast");
        return start(comm, moving(Collective::broadcast, type, root), send, recv, count, request);
    });
}

hkt_status hkt_gather(const void* send, void* recv, size_t send_count, hkt_type type, int32_t root,
                      hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_gather");
        return start(comm, moving(Collective::gather, type, root), send, recv, send_count, request);
    });
}

hkt_status hkt_reduce(const void* send, void* recv, size_t count, hkt_type type, hkt_op op, int32_t root,
                      hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_reduce");
        return start(comm, combining(*comm, Collective::reduce, type, op, root), send, recv, count, request);
    });
}

hkt_status hkt_scatter(const void* send, void* recv, size_t recv_count, hkt_type type, int32_t root,
                       hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_scatter");
        return start(comm, moving(Collective::scatter, type, root), send, recv, recv_count, request);
    });
}

hkt_status hkt_all_to_all(const void* send, void* recv, size_t count, hkt_type type, hkt_comm* comm,
                          hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_all_to_all");
        return start(comm, moving(Collective::all_to_all, type), send, recv, count, request);
    });
}

hkt_status hkt_all_gather_v(const void* send, void* recv, const size_t* counts, hkt_type type, hkt_comm* comm,
                            hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_all_gather_v");
        return start_uneven(comm, moving(Collective::all_gather, type), send, recv, counts, request);
    });
}

hkt_status hkt_reduce_scatter_v(const void* send, void* recv, const size_t* counts, hkt_type type, hkt_op op,
                                hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_reduce_scatter_v");
        return start_uneven(comm, combining(*comm, Collective::reduce_scatter, type, op), send, recv, counts,
                            request);
    });
}

hkt_status hkt_gather_v(const void* send, void* recv, const size_t* counts, hkt_type type, int32_t root,
                        hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_gather_v");
        return start_uneven(comm, moving(Collective::gather, type, root), send, recv, counts, request);
    });
}

hkt_status hkt_scatter_v(const void* send, void* recv, const size_t* counts, hkt_type type, int32_t root,
                         hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_scatter_v");
        return start_uneven(comm, moving(Collective::scatter, type, root), send, recv, counts, request);
    });
}

hkt_status hkt_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displs,
                            void* recv, const size_t* recv_counts, const size_t* recv_displs, hkt_type type,
                            hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_all_to_all_v");
        if (request != nullptr) *request = nullptr;
        const Call call = moving(Collective::all_to_all, type);
        const auto sent = counts_of(comm, send_counts, "send_counts"),
                   received = counts_of(comm, recv_counts, "recv_counts"),
                   sent_at = numbers(comm, send_displs), received_at = numbers(comm, recv_displs);
        return start_uneven(comm, call, send, recv, Layout({sent, sent_at}, {received, received_at}),
                            request);
    });
}

hkt_status hkt_barrier(hkt_comm* comm) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_barrier");
        comm->engine->barrier();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_plan_create(hkt_comm* comm, hkt_collective collective, hkt_type type, hkt_op op,
                           const hkt_plan_options* options, hkt_plan** plan) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_plan_create");
        if (plan == nullptr) capi::refuse("hkt_plan_create: plan is null; pass the address of an hkt_plan*");
        *plan = nullptr;
        engine::PlanChoice choice{.collective = capi::collective_of(collective), .type = capi::type_of(type)};
        double factor = 1;
        if (contract_of(choice.collective).combines()) {
            const auto given_op = capi::operator_of(op, choice.type, comm->operators);
            choice.op = given_op.op;
            factor = given_op.factor;
        }
        const hkt_plan_options given = capi::read_options(options);
        if (given.executor < HKT_EXECUTOR_DEFAULT || given.executor > HKT_EXECUTOR_INTERPRETER)
            capi::refuse(
                fmt::format("hkt_plan_options.executor is {}; it must be an hkt_executor", given.executor));
        if (given.schedule != nullptr) choice.schedule = given.schedule;
        choice.root = given.root;
        choice.executor = static_cast<engine::ExecutorKind>(given.executor);
        auto made = std::make_unique<hkt_plan>();
        made->comm = comm;
        made->factor = factor;
        made->plans = comm->engine->make_plans(choice);
        *plan = made.release();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_plan_start(hkt_plan* plan, const void* send, void* recv, size_t count, hkt_request** request) {
    return capi::guarded(plan == nullptr ? nullptr : plan->comm, [&] {
        if (plan == nullptr) capi::refuse("hkt_plan_start: the plan is null");
        if (request != nullptr) *request = nullptr;
        return start(plan->comm, plan->comm->engine->plan_for(*plan->plans, count).plan, send, recv,
                     plan->factor, count, request);
    });
}

const char* hkt_plan_explain(hkt_plan* plan) {
    if (plan == nullptr) return "";
    try {
        std::call_once(plan->explained, [&] {
            plan->explanation = dsl::explain(plan->plans->for_bytes(1 << 20).plan->program());
        });
    } catch (...) {
        return "";
    }
    return plan->explanation.c_str();
}

const char* hkt_plan_schedule(hkt_plan* plan, size_t count) {
    if (plan == nullptr) return "";
    try {
        return plan->plans->for_bytes(plan->plans->bytes_of(count)).schedule.c_str();
    } catch (...) {
        return "";
    }
}

void hkt_plan_destroy(hkt_plan* plan) {
    delete plan;
}

}  // extern "C"
