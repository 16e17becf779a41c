#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "capi/handles.hpp"
#include "capi/plans/starts.hpp"
#include "capi/vocabulary.hpp"

using namespace hocket;

namespace {

using capi::check_comm;
using capi::start;
using dsl::Collective;

// A collective with a function of its own. factor: for an operator that multiplies.
struct Call {
    engine::PlanChoice choice;
    double factor = 1;
};

hkt_status start(hkt_comm* comm, const Call& call, const void* send, void* recv, std::size_t count,
                 hkt_request** request) {
    if (request != nullptr) *request = nullptr;
    const auto& plan = comm->engine->plans().cached_plan(call.choice, count);
    if (plan->state())
        capi::refuse(fmt::format("schedule {} keeps a state, which needs a plan of its own: hkt_plan_create",
                                 plan->program().schedule));
    return start(comm, plan, send, recv, call.factor, count, request);
}

// Starts a collective whose pieces have different counts.
hkt_status start_uneven(hkt_comm* comm, Call call, const void* send, void* recv, const Layout& layout,
                        hkt_request** request) {
    if (request != nullptr) *request = nullptr;
    call.choice.is_uneven = true;
    return start(comm, comm->engine->plans().cached_plan(call.choice, layout), send, recv, call.factor,
                 engine::Extent(layout), request);
}

Call moving(Collective collective, const hkt_type& type, int root = 0) {
    return {{.collective = collective, .type = capi::type_of(type), .root = root}};
}

Call combining(const hkt_comm& comm, Collective collective, const hkt_type& type, const hkt_op& op,
               int root = 0) {
    const DataType row = capi::type_of(type);
    auto [reduction, factor] = capi::operator_of(op, row, comm.operators);
    return {{.collective = collective, .type = row, .op = std::move(reduction), .root = root}, factor};
}

// Returns one number for each rank; none if `given` is null, as displacements may be.
std::vector<std::uint64_t> numbers(const hkt_comm* comm, const std::size_t* given) {
    if (given == nullptr) return {};
    return {given, given + comm->engine->size()};
}
std::vector<std::uint64_t> counts_of(const hkt_comm* comm, const std::size_t* given, const char* name) {
    if (given == nullptr)
        capi::refuse(fmt::format("{} is null; it must point to one count for each rank", name));
    return numbers(comm, given);
}

// counts: the counts of all ranks.
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
        comm->engine->exchanges().barrier();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_barrier_monitored(hkt_comm* comm, int64_t timeout_ms) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_barrier_monitored");
        comm->engine->exchanges().barrier_monitored(
            std::chrono::milliseconds(check_timeout("hkt_barrier_monitored: timeout_ms", timeout_ms, 1)));
        return HKT_SUCCESS;
    });
}

hkt_status hkt_barrier_start(hkt_comm* comm, hkt_request** request) {
    return capi::guarded(comm, [&] {
        check_comm(comm, "hkt_barrier_start");
        if (request == nullptr)
            capi::refuse("hkt_barrier_start: request is null; pass the address of an hkt_request*");
        engine::Execution& started = comm->engine->exchanges().start_barrier();
        started.user = comm;
        *request = capi::handle(started);
        return HKT_SUCCESS;
    });
}

}  // extern "C"
