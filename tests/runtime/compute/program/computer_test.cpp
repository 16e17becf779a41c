// With which types and operators a schedule that computes can run.
#include "runtime/compute/program/computer.hpp"

#include <limits>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/compute/program/extra_layout.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using compute::Computer;

namespace {

dsl::RankProgram program_of(const std::string& body, const std::string& topology = "2x2") {
    const TemporarySchedule file("schedule t all_reduce(x) with w approximate {\n" + body + "\n}\n");
    return dsl::check_schedule(request(dsl::Collective::all_reduce, file.path(), topology))->project(0);
}

std::string refusal(const dsl::RankProgram& program, DataType type, ReduceOp op,
                    const compute::ComputeOptions& options = {}) {
    try {
        const Computer computer(program, type, op, options);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("what is calculated of partial results is right for sums alone") {
    const auto between = program_of(
        "reduce_scatter x over l0 x = 0.5 * x reduce_scatter x over l1\n"
        "all_gather x over l1 all_gather x over l0");
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::product})
        CHECK_THAT(refusal(between, DataType::float32, op),
                   Contains("computes before all contributions are combined, so its operator must be a sum"));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::premul_sum})
        CHECK(refusal(between, DataType::float32, op) == "");
    // Before and after, every operator will do.
    const auto around = program_of("x = x * x all_reduce x over world x = -x");
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::product, ReduceOp::sum})
        CHECK(refusal(around, DataType::bfloat16, op) == "");
}

TEST_CASE("schedules compute with floating-point numbers, and select among those of up to 32 bits") {
    const auto scales = program_of("all_reduce x over world x = 2 * x");
    const auto selects = program_of("let s = mstopk(x, 0.5) all_gather s over world x = sum(s)");
    for (const DataType type : all_types) {
        const bool is_floating = row_of(type).kind == kind::floating;
        INFO(name_of(type));
        CHECK((refusal(scales, type, ReduceOp::sum) == "") == is_floating);
        CHECK((refusal(selects, type, ReduceOp::sum) == "") == (is_floating && type != DataType::float64));
    }
    CHECK_THAT(refusal(selects, DataType::float32, ReduceOp::max),
               Contains("adds up selections, so its operator must be sum, average or premul_sum, not max"));
    // An average of selections multiplies inputs, so it must be the same as multiplying results.
    CHECK(refusal(selects, DataType::float32, ReduceOp::average) == "");
    for (const char* const first :
         {"x = 0.5 * x", "x = -abs(x)", "x = max(x, 0)", "x = x * w", "x = x / w"}) {
        INFO(first);
        const std::string rest = " let s = mstopk(x, 0.5) all_gather s over world x = sum(s)";
        CHECK(refusal(program_of(first + rest), DataType::float32, ReduceOp::average) == "");
    }
    for (const char* const first : {"x = x + w", "x = x + 1", "x = x * x", "x = sqrt(x)", "x = max(x, 1)",
                                    "x = select(x > 1, 1, x)", "x = w / x"}) {
        INFO(first);
        const std::string rest = " let s = mstopk(x, 0.5) all_gather s over world x = sum(s)";
        CHECK_THAT(refusal(program_of(first + rest), DataType::float32, ReduceOp::average),
                   Contains("may be more than multiples of x") && Contains("divide in the schedule"));
        CHECK(refusal(program_of(first + rest), DataType::float32, ReduceOp::premul_sum) == "");
    }
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    CHECK_THAT(refusal(scales, DataType::float32, ReduceOp::sum, {{most, 1}, 1}),
               Contains("the tensors have more than 2^64 elements"));
    const Computer computer(scales, DataType::float32, ReduceOp::sum, {{3, 0, 4}, 1});
    CHECK(computer.tensors() == 3);
    computer.check_count(7);
    CHECK_THROWS_WITH(computer.check_count(8),
                      Contains("3 tensors have 7 elements, but it is started with 8"));
}

TEST_CASE("a rank has room for the pieces that it packs or may get, not for those of all ranks") {
    constexpr std::uint64_t count = 1 << 16, bytes = count * sizeof(float);
    const auto room = [&](const std::string& body, const std::string& topology) {
        const dsl::RankProgram program = program_of(body, topology);
        const compute::ExtraLayout layout(program, DataType::float32, Layout(count),
                                          compute::densities_of(program, nullptr), 1);
        return static_cast<double>(layout.work_bytes() - bytes) / static_cast<double>(bytes);
    };
    // In eight bits, with a scale: 0.254 of x.
    CHECK(room("reduce_scatter x over world as int8\nall_gather x over world", "32") < 2 * 0.26);
    CHECK(room("reduce_scatter x over world\nall_gather x over world as int8", "32") < 0.27);
    CHECK(room("all_reduce x over levels[0] as int8\nall_reduce x over levels[1]", "2x16") < 2 * 0.26);
    CHECK(room("all_reduce x over levels[0] as mstopk(0.01)\nall_reduce x over levels[1]", "2x16") <
          2 * 0.021);
    CHECK(room("reduce_scatter x over levels[0]\nreduce_scatter x over levels[1] as int8\n"
               "all_gather x over levels[1] as int8\nall_gather x over levels[0]",
               "2x16") < 2 * 0.26);
}
