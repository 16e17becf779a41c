// Operators of schedule files by generated code, against the interpreter and against a plain fold, bit for
// bit.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/compute/jit/interface/kernel_shape.hpp"
#include "runtime/compute/jit/streaming.hpp"
#include "runtime/engine/plan/executor.hpp"
#include "tests/support/kept_memory.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Op = dsl::Formula::Op;

namespace {

std::shared_ptr<const dsl::Operator> operator_of(std::string name, std::vector<dsl::Formula::Item> items) {
    return std::make_shared<const dsl::Operator>(dsl::Operator{std::move(name), {std::move(items)}});
}

constexpr dsl::Formula::Item a{Op::element, 0}, b{Op::element, 1};

// Each with its result for two values, in plain C++.
struct Case {
    std::shared_ptr<const dsl::Operator> op;
    double (*of_doubles)(double, double);
    float (*of_floats)(float, float);
};
template <typename T>
constexpr auto absmax = +[](T x, T y) { return std::fabs(x) >= std::fabs(y) ? x : y; };
template <typename T>
constexpr auto drift = +[](T x, T y) { return y - T(0.3) * x; };
template <typename T>
constexpr auto first = +[](T x, T) { return x; };
template <typename T>
constexpr auto one = +[](T, T) { return T(1); };

const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {operator_of("absmax",
                     {{a, {Op::absolute}, b, {Op::absolute}, {Op::greater_equal}, a, b, {Op::select}}}),
         absmax<double>, absmax<float>},
        {operator_of("drift", {{b, {Op::number, 0, 0.3}, a, {Op::multiply}, {Op::subtract}}}), drift<double>,
         drift<float>},
        {operator_of("first", {a}), first<double>, first<float>},
        {operator_of("one", {{Op::number, 0, 1.0}}), one<double>, one<float>},
    };
    return all;
}

// Operands are the areas 3, 4, ...; destinations one of them or areas behind them.
dsl::RankProgram program_of(std::size_t operands, std::size_t destinations, bool in_place) {
    dsl::Op op{.kind = dsl::Op::Kind::combine, .begin = 0, .end = 1, .area = 0, .completes = true};
    for (std::size_t k = 0; k < operands; ++k)
        op.operands.push_back(static_cast<dsl::AreaId>(dsl::areas_of_a_rank + k));
    op.area = static_cast<dsl::AreaId>(dsl::areas_of_a_rank + (in_place ? operands / 2 : operands));
    for (std::size_t d = 1; d < destinations; ++d)
        op.also.push_back(static_cast<dsl::AreaId>(dsl::areas_of_a_rank + operands + d));
    dsl::RankProgram program{};
    program.ranks = static_cast<dsl::Rank>(operands);
    program.boundaries = {dsl::Rational(0), dsl::Rational(1)};
    program.scratch.resize(operands + destinations, {0, 1});
    program.ops = {op};
    return program;
}

// The code is made once, for all counts.
template <DataType type>
class OperatorComparison {
  public:
    OperatorComparison(const Case& c, std::size_t operands, std::size_t destinations, bool in_place)
        : case_(c),
          operands_(operands),
          what_(fmt::format("{} of {}, {} operands to {}{}", c.op->name, name_of(type), operands,
                            destinations, in_place ? ", in place" : "")),
          program_(program_of(operands, destinations, in_place)),
          compiled_(executor(engine::ExecutorKind::jit)),
          walked_(executor(engine::ExecutorKind::interpreter)) {}

    void run(std::size_t count) {
        INFO(what_ << ", count " << count);
        std::mt19937 random(static_cast<unsigned>(count + operands_));
        std::uniform_real_distribution<float> values(-8, 8);
        Memory original(program_.areas(), std::vector<Stored>(count));
        constexpr std::size_t period = 10'007;  // a prime: no two areas get the same numbers
        std::vector<Stored> drawn(std::min(count * original.size(), period));
        for (Stored& value : drawn) value = static_cast<Stored>(static_cast<Worked>(values(random)));
        std::size_t next = 0;
        for (auto& area : original)
            for (Stored& value : area) {
                value = drawn[next];
                if (++next == period) next = 0;
            }
        const Memory compiled = run(*compiled_, original), walked = run(*walked_, original);
        for (std::size_t i = 0; i < count; ++i) {
            const Stored expected = fold(original, i), &result = walked[program_.ops[0].area][i];
            if (std::memcmp(&result, &expected, sizeof expected) != 0) FAIL("element " << i << " is wrong");
        }
        for (std::size_t area = 0; area < original.size(); ++area)
            REQUIRE(std::memcmp(compiled[area].data(), walked[area].data(), count * sizeof(Stored)) == 0);
    }

  private:
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    using Memory = std::vector<std::vector<Stored>>;

    std::unique_ptr<engine::Executor> executor(engine::ExecutorKind kind) const {
        return engine::Executor::create(kind, program_, type, compute::Reduction(case_.op));
    }
    static Memory run(engine::Executor& executor, Memory memory) {
        std::vector<std::byte*> areas;
        for (auto& area : memory) areas.push_back(reinterpret_cast<std::byte*>(area.data()));
        std::uint64_t offsets[2];
        executor.bind(memory[0].size(), offsets);
        executor.run(0, areas.data(), offsets);
        return memory;
    }
    Stored fold(const Memory& original, std::size_t i) const {
        Worked folded = static_cast<Worked>(original[dsl::areas_of_a_rank][i]);
        for (std::size_t k = 1; k < operands_; ++k) {
            const Worked next = static_cast<Worked>(original[dsl::areas_of_a_rank + k][i]);
            if constexpr (std::is_same_v<Worked, double>)
                folded = case_.of_doubles(folded, next);
            else
                folded = case_.of_floats(folded, next);
        }
        return static_cast<Stored>(folded);
    }

    const Case& case_;
    const std::size_t operands_;
    const std::string what_;
    const dsl::RankProgram program_;
    const std::unique_ptr<engine::Executor> compiled_, walked_;
};

template <DataType type>
void compare_all() {
    int number = static_cast<int>(type);
    for (const Case& c : cases()) {
        for (const std::size_t operands : {2u, 3u, 5u, 16u, 17u, 20u})
            for (const std::size_t destinations : {1u, 2u, 17u})
                for (const bool in_place : {false, true}) {
                    // Each is compiled: usually, they come by turns.
                    if (number++ % test::in_long_form(1, 11) != 0) continue;
                    OperatorComparison<type> comparison(c, operands, destinations, in_place);
                    for (const std::size_t count : {1u, 7u, 33u, 600u}) comparison.run(count);
                }
        if (&c == &cases()[0] || test::is_long_form())
            OperatorComparison<type>(c, 2, 1, false)
                .run(jit::least_streamed_bytes(2, 1) / element_size(type) + 50);
    }
}

}  // namespace

TEST_CASE("operators of schedule files give a plain fold's bits, by generated code and by the interpreter") {
    test::keep_freed_memory();
    compare_all<DataType::float32>();
    compare_all<DataType::float64>();
    compare_all<DataType::float16>();
    compare_all<DataType::bfloat16>();
}

TEST_CASE("kernels of different operators have different names, and copies know no operator") {
    const auto shape = [](const Case& c, std::size_t operands) {
        return jit::KernelShape::of(DataType::float32, ReduceOp::max, operands, 1, 1, {},
                                    c.op->formula.items);
    };
    for (const Case& one : cases())
        for (const Case& other : cases()) {
            CHECK((name_of(shape(one, 2)) == name_of(shape(other, 2))) == (&one == &other));
            CHECK((shape(one, 2) == shape(other, 2)) == (&one == &other));
            CHECK(shape(one, 1) == shape(other, 1));
        }
    CHECK(name_of(shape(cases()[2], 2)) == "combine2_float32_by_e0");
}

TEST_CASE(
    "an operator of a schedule file exists for floating-point types, and neither divides nor multiplies") {
    const compute::Reduction op(cases()[0].op);
    for (const DataType type : all_types) CHECK(op.supports(type) == (row_of(type).kind == kind::floating));
    CHECK(op.divisor(4) == 1);
    CHECK_FALSE(op.multiplies());
    CHECK(op.name() == "absmax");
    // Operators are equal if their formulas are, wherever they were made; and never equal to a built-in one.
    const compute::Reduction same(operator_of("absmax", cases()[0].op->formula.items)), other(cases()[1].op);
    CHECK(op == same);
    CHECK(op.identity() == same.identity());
    CHECK((op < other) != (other < op));
    CHECK(op.identity() != other.identity());
    for (const ReduceOp built_in : all_ops) {
        CHECK_FALSE(op == compute::Reduction(built_in));
        CHECK(op.identity() != compute::Reduction(built_in).identity());
    }
}
