#include "capi/plans/starts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "capi/vocabulary.hpp"

namespace hocket::capi {
namespace {

[[noreturn, gnu::cold]] void refuse_buffer(const char* name, const void* buffer, DataType type) {
    if (buffer == nullptr) refuse(fmt::format("{} is null, but the count is not 0", name));
    refuse(not_aligned(name, type));
}

inline void check_buffer(const char* name, const void* buffer, const engine::Plan& plan) {
    const bool is_aligned = (reinterpret_cast<std::uintptr_t>(buffer) & (plan.element() - 1)) == 0;
    if (buffer == nullptr || !is_aligned) refuse_buffer(name, buffer, plan.type());
}

// The range of memory that this rank sends to `peer` or receives from it.
struct PairPiece {
    std::uintptr_t begin, end;
    bool is_received;
    int peer;
};

[[noreturn]] void refuse_overlap(const PairPiece& received, const PairPiece& other) {
    if (other.is_received)
        refuse(fmt::format("the piece received from rank {} overlaps the piece received from rank {}",
                           received.peer, other.peer));
    refuse(
        fmt::format("the piece received from rank {} overlaps the piece sent to rank {}, but this is not the "
                    "in-place form: that is send == recv, with the same counts and displacements for both",
                    received.peer, other.peer));
}

// Refuses a received piece that overlaps any other piece.
void check_apart(std::vector<PairPiece>& pieces) {
    std::sort(pieces.begin(), pieces.end(),
              [](const PairPiece& a, const PairPiece& b) { return a.begin < b.begin; });
    const PairPiece *sent = nullptr, *received = nullptr;  // the pieces so far that reach furthest
    for (const PairPiece& piece : pieces) {
        if (received && piece.begin < received->end) refuse_overlap(*received, piece);
        if (piece.is_received && sent && piece.begin < sent->end) refuse_overlap(piece, *sent);
        const PairPiece*& furthest = piece.is_received ? received : sent;
        if (!furthest || furthest->end < piece.end) furthest = &piece;
    }
}

// Refuses a displacement that places a piece beyond addressable memory. layout: of all pieces.
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
                refuse(fmt::format("{}, which does not fit in memory (at most {} {} elements)",
                                   describe_piece(is_received, static_cast<std::size_t>(rank), place, count),
                                   most, name_of(plan.type())));
        }
    plan.elements_of_x(layout.count());  // throws if the counts are too large
}

// Like check_buffers, for different counts for each pair of ranks.
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

// Returns, for example, "recv + 4 elements (16 bytes)" or "recv".
std::string relative_to_recv(std::uintptr_t address, std::uintptr_t recv, std::uint64_t element) {
    if (address == recv) return "recv";
    const std::uintptr_t bytes = address < recv ? recv - address : address - recv;
    return fmt::format("recv {} {} element{} ({} bytes)", address < recv ? '-' : '+', bytes / element,
                       bytes == element ? "" : "s", bytes);
}

// Refuses buffers that are null, or that overlap in a way that would silently give wrong results. Small
// starts notice the cost of this check, so no layout is made where all pieces are alike.
void check_buffers(const engine::Plan& plan, const void* send, const void* recv,
                   const engine::Extent& extent) {
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
        refuse(fmt::format(
            "send and recv overlap, but this is not the in-place form: on rank {} send must be {} then, and "
            "is {}",
            program.rank, relative_to_recv(in_place, to, element), relative_to_recv(from, to, element)));
}

}  // namespace

void check_comm(const hkt_comm* comm, const char* function) {
    if (comm == nullptr) refuse(fmt::format("{}: comm is null", function));
}

hkt_status start(hkt_comm* comm, const std::shared_ptr<engine::StartablePlan>& plan, const void* send,
                 void* recv, double factor, const engine::Extent& extent, hkt_request** request) {
    check_buffers(*plan, send, recv, extent);
    if (request == nullptr) {
        comm->engine->run(plan, send, recv, extent, factor);
    } else {
        engine::Execution& execution = comm->engine->start(plan, send, recv, extent, factor);
        execution.user = comm;
        *request = handle(execution);
    }
    return HKT_SUCCESS;
}

}  // namespace hocket::capi
