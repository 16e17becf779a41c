// Compiled programs as a whole: boundaries, operations, text, threads.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/compiled_program.hpp"
#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/kernels.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Rational;
using Kind = dsl::Op::Kind;

namespace {

dsl::RankProgram with_boundaries(const std::set<Rational>& boundaries) {
    dsl::RankProgram program{};
    program.boundaries.assign(boundaries.begin(), boundaries.end());
    return program;
}

dsl::Op op(Kind kind, dsl::BoundaryId begin, dsl::BoundaryId end, dsl::AreaId area,
           std::vector<dsl::AreaId> operands) {
    return {.kind = kind, .begin = begin, .end = end, .area = area, .operands = operands, .successors = {}};
}

// Thirds of x: the first is combined from a message (area 3), the second copied, the third combined twice.
// Scratch slots hold their third alone; operation 1 is a send.
dsl::RankProgram thirds() {
    dsl::RankProgram program = with_boundaries({Rational(0), {1, 3}, {2, 3}, 1});
    program.scratch = {{0, 1}, {2, 3}, {2, 3}};
    program.ops = {
        op(Kind::combine, 0, 1, dsl::work_area, {dsl::input_area, 3}),
        op(Kind::send, 0, 1, dsl::work_area, {}),
        op(Kind::copy, 1, 2, dsl::output_area, {dsl::input_area}),
        op(Kind::combine, 2, 3, dsl::output_area, {4, dsl::input_area, 5}),
        op(Kind::combine, 2, 3, dsl::output_area, {dsl::output_area, dsl::output_area}),
    };
    return program;
}

}  // namespace

TEST_CASE("bind gives the exact offset of every boundary") {
    std::set<Rational> boundaries{0, 1};
    std::mt19937_64 random(3);
    for (const std::int64_t den : {2l, 3l, 7l, 9l, 64l, 641l, 1000l, 1023l, 1024l, 65537l})
        for (std::int64_t num = 1; num < std::min(den, 100l); ++num)
            boundaries.emplace(num * (den / 100 + 1) % den, den);
    const std::int64_t b32 = 1l << 32;
    for (const std::int64_t den : {b32 - 5, b32 - 1, b32, b32 + 1, b32 * 3 + 1, (1l << 61) - 1, INT64_MAX})
        for (const std::int64_t num : {1l, den / 3, den / 2 + 1, den - 1}) boundaries.emplace(num, den);
    for (std::int64_t num = 1; num < 20; ++num) boundaries.emplace(num * (b32 + 3), b32 * 1000 + 7);
    for (int i = 0; i < 300; ++i) {
        const std::int64_t den = 1 + random() % (1ull << (1 + random() % 40));
        boundaries.emplace(static_cast<std::int64_t>(random() % (den + 1)), den);
    }
    const dsl::RankProgram program = with_boundaries(boundaries);

    constexpr std::uint64_t top = 1ull << 48;
    std::vector<std::uint64_t> counts{
        0,       1,       2,      3, 100, 1'000'003, 1ull << 31, (1ull << 32) - 1, (1ull << 32) + 1,
        top / 3, top - 2, top - 1};
    for (int i = 0; i < 200; ++i) counts.push_back(random() % (1ull << (1 + random() % 48)));

    for (const DataType type : {DataType::float32, DataType::int64}) {
        const auto compiled = jit::CompiledProgram::compile(program, type, ReduceOp::sum);
        for (const std::uint64_t count : counts) {
            std::vector<std::uint64_t> actual(program.boundaries.size()), expected;
            compiled->bind(count, actual.data());
            for (const Rational& boundary : program.boundaries)
                expected.push_back(boundary.offset(count) * element_size(type));
            INFO("count " << count);
            REQUIRE(actual == expected);
        }
    }
}

TEST_CASE("operations work on their region of their areas") {
    const auto compiled = jit::CompiledProgram::compile(thirds(), DataType::int32, ReduceOp::sum);
    for (const std::size_t count : {0u, 1u, 2u, 3u, 10u, 1000u}) {
        std::vector<std::uint64_t> offsets(4);
        compiled->bind(count, offsets.data());
        const std::size_t first = count / 3, second = 2 * count / 3;
        CHECK(offsets == std::vector<std::uint64_t>{0, 4 * first, 4 * second, 4 * count});

        std::vector<std::int32_t> input(count), output(count, -1), work(count, -1);
        std::iota(input.begin(), input.end(), 0);
        std::vector<std::int32_t> slot_3(first, 100), slot_4(count - second, 1000),
            slot_5(count - second, 20);
        const auto base = [](std::vector<std::int32_t>& memory, std::size_t origin) {
            return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory.data()) - 4 * origin);
        };
        std::byte* const areas[] = {base(input, 0),  base(output, 0),      base(work, 0),
                                    base(slot_3, 0), base(slot_4, second), base(slot_5, second)};
        for (const dsl::OpId id : {0u, 2u, 3u, 4u}) compiled->run(id, areas, offsets.data());

        for (std::size_t i = 0; i < count; ++i) {
            CHECK(input[i] == int(i));
            CHECK(work[i] == (i < first ? int(i) + 100 : -1));
            CHECK(output[i] == (i < first ? -1 : i < second ? int(i) : 2 * (1020 + int(i))));
        }
    }
}

TEST_CASE("signals and awaits are left to others") {
    dsl::RankProgram program = thirds();
    for (const Kind kind : {Kind::signal, Kind::await}) program.ops.push_back(op(kind, 0, 0, 0, {}));
    const auto compiled = jit::CompiledProgram::compile(program, DataType::int32, ReduceOp::sum);
    CHECK_THROWS_AS(compiled->run(5, nullptr, nullptr), Error);
    CHECK_THROWS_AS(compiled->run(6, nullptr, nullptr), Error);
}

TEST_CASE("an operation that is no code, or none at all, is refused") {
    const auto compiled = jit::CompiledProgram::compile(thirds(), DataType::float64, ReduceOp::max);
    CHECK_THROWS_AS(compiled->run(1, nullptr, nullptr), Error);
    CHECK_THROWS_AS(compiled->run(5, nullptr, nullptr), Error);
}

TEST_CASE("a program without code compiles") {
    const auto compiled =
        jit::CompiledProgram::compile(with_boundaries({0, 1}), DataType::float32, ReduceOp::sum);
    std::uint64_t offsets[2] = {1, 1};
    compiled->bind(5, offsets);
    CHECK(offsets[0] == 0);
    CHECK(offsets[1] == 20);
}

TEST_CASE("the code can be read") {
    using Catch::Matchers::Contains;
    dsl::RankProgram program = thirds();
    program.ops[4].also = {dsl::input_area};
    const auto compiled = jit::CompiledProgram::compile(program, DataType::float32, ReduceOp::sum);
    const std::string ir = compiled->llvm_ir(), assembly = compiled->assembly();
    for (const char* name : {"@copy_int32(", "@combine2_float32_sum(", "@combine2_to_2_float32_sum(",
                             "@combine3_float32_sum(", "%operand_2", "%destination_1", "%count", "fadd <"})
        CHECK_THAT(ir, Contains(name));
    CHECK_THAT(ir, !Contains("combine4"));
    for (const char* name : {"combine2_float32_sum:", "combine3_float32_sum:"})
        CHECK_THAT(assembly, Contains(name));
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        const std::size_t begin = assembly.find("combine3_float32_sum_streamed:");
        const std::string kernel = assembly.substr(begin, assembly.find(".size", begin) - begin);
        CHECK_THAT(kernel, Contains("vaddps") && (Contains("%ymm") || Contains("%zmm")));
        CHECK_THAT(kernel, Contains("vmovntps") && Contains("sfence"));
    }
#endif
}

TEST_CASE("programs share kernels: their code depends on few things") {
    using jit::KernelShape, jit::find_kernel;
    const auto code = [](DataType type, ReduceOp op, std::size_t operands, std::size_t destinations) {
        return find_kernel(KernelShape::of(type, op, operands, destinations)).code();
    };
    const auto f32 = DataType::float32, f64 = DataType::float64;
    const auto sum = ReduceOp::sum, max = ReduceOp::max;
    CHECK(code(f32, sum, 2, 1) == code(f32, sum, 2, 1));
    CHECK(code(f32, sum, 17, 1) == code(f32, sum, 2, 40));  // loops over any number
    CHECK(code(f32, sum, 1, 2) == code(f32, max, 1, 2));    // copies
    CHECK(code(f32, sum, 1, 2) == code(DataType::int32, sum, 1, 2));
    CHECK(code(f32, sum, 1, 17) == code(DataType::int32, max, 1, 40));
    CHECK(code(f32, sum, 1, 17) != code(f32, sum, 17, 17));
    std::set<jit::Code> different{code(f32, sum, 2, 1), code(f32, sum, 2, 2), code(f32, sum, 3, 1),
                                  code(f32, max, 2, 1), code(f64, sum, 2, 1), code(f32, sum, 17, 1),
                                  code(f32, sum, 1, 2), code(f64, sum, 1, 2)};
    CHECK(different.size() == 8);
}

TEST_CASE("an error of LLVM comes out of the library that has it, with its words") {
    jit::Compiler compiler;
    const auto shape = jit::KernelShape::of(DataType::float32, ReduceOp::sum, 2, 1);
    CHECK(compiler.compile(shape) != nullptr);
    for (int i = 0; i < 2; ++i)  // a second definition of one name
        CHECK_THROWS_MATCHES(
            compiler.compile(shape), Error,
            Catch::Matchers::Message(
                "JIT: cannot compile: Duplicate definition of symbol 'combine2_float32_sum'; "
                "HOCKET_EXECUTOR=interpreter runs plans without it"));
    CHECK(compiler.compile(jit::KernelShape::of(DataType::float32, ReduceOp::max, 2, 1)) != nullptr);
}

TEST_CASE("four threads compile at once") {
    std::vector<std::int32_t> results(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([t, &results] {
            for (int round = 0; round < 3; ++round) {
                const auto compiled = jit::CompiledProgram::compile(thirds(), DataType::int32, ReduceOp::sum);
                std::vector<std::int32_t> memory(3, t + round);
                std::vector<std::byte*> areas(6, reinterpret_cast<std::byte*>(memory.data()));
                std::uint64_t offsets[4];
                compiled->bind(3, offsets);
                compiled->run(3, areas.data(), offsets);
                results[t] += memory[2];
            }
        });
    for (auto& thread : threads) thread.join();
    for (int t = 0; t < 4; ++t) CHECK(results[t] == 3 * (3 * t + 3));
}
