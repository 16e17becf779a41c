#include "runtime/engine/plan/plan.hpp"

#include "runtime/base/error.hpp"
#include "runtime/engine/run/execution.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using engine::ExecutorKind;
using engine::Plan;

namespace {

std::shared_ptr<Plan> ring_plan(dsl::Rank rank, dsl::Rank ranks,
                                ExecutorKind kind = ExecutorKind::interpreter) {
    return std::make_shared<Plan>(test::ring_all_reduce(rank, ranks), DataType::float32, ReduceOp::sum, kind);
}

}  // namespace

TEST_CASE("a binding has the boundaries in bytes, and aligned scratch") {
    const auto plan = ring_plan(1, 3);
    const auto binding = plan->bind(100);
    CHECK(binding->byte_offsets == std::vector<std::uint64_t>{0, 33 * 4, 66 * 4, 100 * 4});
    REQUIRE(binding->slot_offsets.size() == 2);
    for (const auto offset : binding->slot_offsets) CHECK(offset % 64 == 0);
    CHECK(binding->memory_bytes == 2 * 192);  // 33 or 34 floats each, rounded up
    CHECK(binding->remaining == plan->program().ops.size());
}

TEST_CASE("what was worked out for a count is kept for the last few") {
    const auto plan = ring_plan(0, 2);
    const auto first = plan->bind(10);
    CHECK(plan->bind(10) == first);
    for (const std::uint64_t count : {11, 12, 13}) plan->bind(count);
    CHECK(plan->bind(10) == first);
    for (const std::uint64_t count : {14, 15, 16, 17}) plan->bind(count);
    CHECK(plan->bind(10) != first);
}

TEST_CASE("operations without elements are complete from the start") {
    const auto plan = ring_plan(0, 4);
    CHECK(plan->bind(0)->remaining == 0);
    // One element: only the last chunk has it, so only that chunk's operations are left.
    const auto binding = plan->bind(1);
    std::uint32_t with_elements = 0;
    for (const dsl::Op& op : plan->program().ops) with_elements += op.begin == 3;
    CHECK(binding->remaining == with_elements);
    for (dsl::OpId id = 0; id < plan->program().ops.size(); ++id)
        CHECK((binding->waits[id] == engine::Binding::complete) == (plan->program().ops[id].begin != 3));
}

TEST_CASE("a message is as long as its parts, and complete from the start only where all are empty") {
    const auto plan = std::make_shared<Plan>(test::broadcast_in_parts(1, 2, 0), DataType::int32,
                                             ReduceOp::sum, ExecutorKind::interpreter);
    const dsl::Op& receive = plan->program().ops[0];
    for (const std::uint64_t count : {1u, 2u, 6u, 7u, 1000u}) {
        CHECK(plan->bind(count)->bytes_of(receive) == 4 * count);
        CHECK(plan->bind(count)->remaining == 1);
    }
    CHECK(plan->bind(0)->remaining == 0);
}

TEST_CASE("the executors bind alike") {
    const auto interpreter = ring_plan(2, 7);
    const auto automatic = ring_plan(2, 7, test::compiled_if_any());
    for (const std::uint64_t count : {0u, 1u, 6u, 7u, 1000u, 100003u})
        CHECK(interpreter->bind(count)->byte_offsets == automatic->bind(count)->byte_offsets);
}

TEST_CASE("a count that cannot be is refused") {
    const auto plan = ring_plan(0, 2);
    CHECK_THROWS_WITH(plan->elements_of_x(std::uint64_t{1} << 50), Catch::Contains("does not fit in memory"));
    CHECK(plan->elements_of_x(123) == 123);
}

TEST_CASE("identities tell counts, types and operators apart") {
    const auto sum = ring_plan(0, 2);
    const auto max = std::make_shared<Plan>(test::ring_all_reduce(0, 2), DataType::float32, ReduceOp::max,
                                            ExecutorKind::interpreter);
    const auto f64 = std::make_shared<Plan>(test::ring_all_reduce(1, 2), DataType::float64, ReduceOp::sum,
                                            ExecutorKind::interpreter);
    CHECK(sum->identity(5) == ring_plan(1, 2)->identity(5));
    CHECK(sum->identity(5) != sum->identity(6));
    CHECK(sum->identity(5) != max->identity(5));
    CHECK(sum->identity(5) != f64->identity(5));
}

TEST_CASE("a program that breaks a rule is refused, not run") {
    const auto broken = [](auto change) {
        dsl::RankProgram program = test::ring_all_reduce(0, 3);
        change(program);
        return std::make_shared<Plan>(program, DataType::int32, ReduceOp::sum, ExecutorKind::interpreter);
    };
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[0].end = 99; }), Catch::Contains("no boundaries"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[0].peer = 3; }), Catch::Contains("peer does not exist"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[0].peer = 0; }), Catch::Contains("peer does not exist"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[1].area = 77; }), Catch::Contains("area does not exist"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[2].operands[0] = 77; }), Catch::Contains("operand's area"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[2].operands.resize(1); }),
                      Catch::Contains("too few operands for a combine: 1"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[2].also = {77}; }), Catch::Contains("a further area"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[2].kind = dsl::Op::Kind::copy; }),
                      Catch::Contains("too many operands for a copy: 2"));
    for (const dsl::Rational outside : {dsl::Rational(-1, 7), dsl::Rational(8, 7)})
        CHECK_THROWS_WITH(broken([&](auto& p) { p.boundaries[0] = outside; }),
                          Catch::Contains("outside of all buffers"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[2].waits_for = 5; }), Catch::Contains("predecessors"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[2].successors = {1}; }), Catch::Contains("not a later"));
    CHECK_THROWS_WITH(broken([](auto& p) { p.ops[0].origin = 9; }), Catch::Contains("origin"));
    CHECK_THROWS_WITH(broken([](auto& p) {
                          p.ops[0].further = {{0, 9, 0}};
                      }),
                      Catch::Contains("no boundaries"));
    CHECK_THROWS_WITH(broken([](auto& p) {
                          p.ops[0].further = {{2, 1, 0}};
                      }),
                      Catch::Contains("no boundaries"));
    CHECK_THROWS_WITH(broken([](auto& p) {
                          p.ops[0].further = {{0, 1, 77}};
                      }),
                      Catch::Contains("area of a part"));
    CHECK_THROWS_WITH(broken([](auto& p) {
                          p.ops[2].further = {{0, 1, 0}};
                      }),
                      Catch::Contains("only messages"));
}

TEST_CASE("with a count for each pair of ranks, a program that does more than copy is refused") {
    dsl::RankProgram program = test::ring_all_reduce(0, 3);
    program.collective = dsl::Collective::all_to_all;
    program.buffers = 2;
    program.scratch.clear();
    program.ops = {{.kind = dsl::Op::Kind::combine,
                    .begin = 0,
                    .end = 1,
                    .area = dsl::output_area,
                    .operands = {dsl::input_area, dsl::input_area}}};
    CHECK_THROWS_WITH(
        Plan(program, DataType::int32, ReduceOp::sum, ExecutorKind::interpreter, {.is_uneven = true}),
        Catch::Contains("it does more than copy"));
}

TEST_CASE("an operator that does not exist for the type is refused where the program combines") {
    const auto make = [](DataType type, ReduceOp op) {
        return std::make_shared<Plan>(test::ring_all_reduce(0, 3), type, op, ExecutorKind::interpreter);
    };
    CHECK_THROWS_WITH(make(DataType::float32, ReduceOp::bxor),
                      Catch::Contains("bxor does not exist for float32"));
    CHECK_NOTHROW(make(DataType::int32, ReduceOp::bxor));
}
