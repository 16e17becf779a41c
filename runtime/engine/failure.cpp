#include "runtime/engine/failure.hpp"

#include <fmt/format.h>

namespace hocket::engine {
namespace {

constexpr const char* only_destroy = "this communicator can only be destroyed now";

std::string region(const Execution& execution, const dsl::Op& op) {
    const auto& boundaries = execution.plan().program().boundaries;
    const std::uint64_t size = element_size(execution.plan().type());
    const std::uint64_t begin = execution.binding().byte_offsets[op.begin] / size;
    const std::uint64_t end = execution.binding().byte_offsets[op.end] / size;
    const std::string fractions =
        fmt::format("x[{}, {})", boundaries[op.begin].text(), boundaries[op.end].text());
    if (end == begin + 1) return fmt::format("{} (element {})", fractions, begin);
    return fmt::format("{} (elements {} to {})", fractions, begin, end - 1);
}

std::string action(const Execution& execution, const dsl::Op& op) {
    switch (op.kind) {
        case dsl::Op::Kind::send:
            return fmt::format("sending {} to rank {}", region(execution, op), op.peer);
        case dsl::Op::Kind::receive:
            return fmt::format("waiting for {} from rank {}", region(execution, op), op.peer);
        case dsl::Op::Kind::combine:
            return "combining " + region(execution, op);
        case dsl::Op::Kind::copy:
            break;
    }
    return "copying " + region(execution, op);
}

std::string where(int this_rank, InFlight in_flight) {
    if (in_flight.empty()) return fmt::format("  rank {} was between operations", this_rank);
    const Execution& oldest = *in_flight.front();
    std::string text = fmt::format("  rank {} was in {}", this_rank, describe(oldest));
    if (const auto op = oldest.first_incomplete()) text += ", " + describe(oldest, *op);
    if (in_flight.size() > 1)
        text += fmt::format("\n  and {} later operations were in flight", in_flight.size() - 1);
    return text;
}

}  // namespace

std::string describe(const Execution& execution) {
    const Plan& plan = execution.plan();
    const dsl::RankProgram& program = plan.program();
    std::string type(name_of(plan.type()));
    if (plan.reduces()) type += fmt::format(" {}", name_of(plan.op()));
    if (program.collective == dsl::Collective::broadcast) type += fmt::format(" from rank {}", program.root);
    return fmt::format("{} #{} ({} on {}, {}, {} element{})", dsl::name_of(program.collective),
                       execution.number(), program.schedule, program.topology, type, execution.count(),
                       execution.count() == 1 ? "" : "s");
}

std::string describe(const Execution& execution, dsl::OpId id) {
    const dsl::RankProgram& program = execution.plan().program();
    const dsl::Op& op = program.ops[id];
    const dsl::Origin& origin = program.origins[op.origin];
    std::string text = fmt::format("step {} of {}: {}\n  at {}: {}", id + 1, program.ops.size(),
                                   action(execution, op), origin.location, origin.text);
    if (!origin.context.empty()) text += fmt::format("\n  in {}", origin.context);
    return text;
}

Failure rank_was_lost(int rank, const std::string& reason, int this_rank, InFlight in_flight) {
    return {Status::peer_lost,
            fmt::format("rank {} was lost: {}\n{}\n  hint: look at the output of rank {} first; {}", rank,
                        reason, where(this_rank, in_flight), rank, only_destroy)};
}

Failure rank_has_left(int rank, int this_rank, InFlight in_flight) {
    return {Status::peer_lost,
            fmt::format(
                "rank {} has left the job: it destroyed its communicator while others still needed it\n{}\n"
                "  hint: all ranks must start the same operations; see whether rank {} failed before, or "
                "started fewer; {}",
                rank, where(this_rank, in_flight), rank, only_destroy)};
}

Failure fabric_failed(const std::string& reason, int this_rank, InFlight in_flight) {
    return {Status::transport,
            fmt::format("the fabric failed: {}\n{}\n  hint: try another provider (HOCKET_PROVIDER=tcp), or "
                        "FI_LOG_LEVEL=warn for libfabric's own words; {}",
                        reason, where(this_rank, in_flight), only_destroy)};
}

Failure timed_out(std::chrono::milliseconds limit, int this_rank, InFlight in_flight) {
    return {Status::timeout,
            fmt::format(
                "the operation did not finish within {} ms\n{}\n  hint: see what that rank is doing: it may "
                "be slow (raise HOCKET_TIMEOUT_MS), stuck, or have started another operation or count; {}",
                limit.count(), where(this_rank, in_flight), only_destroy)};
}

Failure ranks_disagree(const Execution& execution, dsl::OpId id, std::int64_t agreed, int this_rank) {
    const int peer = execution.plan().program().ops[id].peer;
    const auto number = static_cast<std::int64_t>(execution.number());
    const std::string difference =
        agreed == number - 1 ? fmt::format("rank {} started something else as #{}", peer, number)
        : agreed < 0
            ? fmt::format("rank {} started something else as #{} or earlier", peer, number)
            : fmt::format("rank {} started something else between #{} and #{}", peer, agreed + 1, number);
    return {Status::mismatch,
            fmt::format(
                "ranks {} and {} started different operations\n  rank {} started {}; {}\n  noticed in {}\n"
                "  hint: all ranks must start the same collectives in the same order, with the same count, "
                "type, operator, root and schedule text; compare those calls on both ranks; {}",
                std::min(this_rank, peer), std::max(this_rank, peer), this_rank, describe(execution),
                difference, describe(execution, id), only_destroy)};
}

}  // namespace hocket::engine
