// The two executors against each other: generated combines and copies give the bits of the plain C++ ones.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/compute/jit/compiled_program.hpp"
#include "runtime/compute/jit/precompiled/precompiled.hpp"
#include "runtime/compute/jit/precompiled/usual_shapes.hpp"
#include "runtime/compute/jit/streaming.hpp"
#include "runtime/engine/plan/executor.hpp"
#include "tests/runtime/compute/jit/reference.hpp"
#include "tests/support/kept_memory.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

namespace {

// An operation's operands are areas 3, 4, ..., and its destinations some of those, for operations in place,
// and areas that come after them.
constexpr dsl::AreaId first_operand = dsl::areas_of_a_rank;

dsl::Op operation(std::size_t operands, const std::vector<dsl::AreaId>& destinations) {
    dsl::Op op{.kind = operands == 1 ? dsl::Op::Kind::copy : dsl::Op::Kind::combine,
               .begin = 0,
               .end = 1,
               .area = destinations[0],
               .operands = {},
               .also = {destinations.begin() + 1, destinations.end()},
               .successors = {}};
    for (std::size_t k = 0; k < operands; ++k) op.operands.push_back(first_operand + k);
    return op;
}

// An operation to n areas in random order, of which `in_place` are operands.
dsl::Op operation(std::size_t operands, std::size_t n, std::size_t in_place) {
    std::vector<dsl::AreaId> areas;
    for (std::size_t k = 0; k < in_place; ++k) areas.push_back(first_operand + k * operands / in_place);
    for (std::size_t k = in_place; k < n; ++k) areas.push_back(first_operand + operands + k);
    std::reverse(areas.begin(), areas.end());
    std::rotate(areas.begin(), areas.begin() + operands % n, areas.end());
    return operation(operands, areas);
}

std::size_t areas_of(const std::vector<dsl::Op>& ops) {
    dsl::AreaId last = 0;
    for (const dsl::Op& op : ops) {
        last = std::max({last, op.area, op.operands.back()});
        for (const dsl::AreaId area : op.also) last = std::max(last, area);
    }
    return last + 1;
}

dsl::RankProgram program_of(std::vector<dsl::Op> ops) {
    dsl::RankProgram program{};
    program.boundaries = {dsl::Rational(0), dsl::Rational(1)};
    program.scratch.resize(areas_of(ops) - dsl::areas_of_a_rank, {0, 1});
    program.ops = std::move(ops);
    return program;
}

// 1 to 17 operands by 1 to 17 destinations, with none, some and as many as there can be in place; and one
// destination in place of every operand. Of destinations and such operands one of `step`, to save time, and
// usually in place or not by turns.
std::vector<dsl::Op> many_operations(std::size_t step) {
    std::vector<dsl::Op> ops;
    int number = 0;
    for (std::size_t n = 1; n <= 17; ++n) {
        for (std::size_t d = 1 + n % step; d <= 17; d += step)
            for (const std::size_t in_place : {std::size_t(0), std::min(n, d) / 2, std::min(n, d)})
                if (number++ % test::in_long_form(1, 4) == 0) ops.push_back(operation(n, d, in_place));
        for (dsl::AreaId k = n % step % n; k < n; k += step) ops.push_back(operation(n, {first_operand + k}));
    }
    return ops;
}

// Unrolled and not, and the largest that is unrolled; each number of operands and of destinations, and in
// place or not.
std::vector<dsl::Op> few_operations() {
    std::vector<dsl::Op> ops;
    for (const auto& [n, d, in_place] : {std::tuple(2, 1, 0),
                                         {2, 2, 1},
                                         {3, 1, 1},
                                         {3, 2, 0},
                                         {16, 1, 0},
                                         {16, 2, 1},
                                         {17, 1, 1},
                                         {17, 2, 0}})
        ops.push_back(operation(n, d, in_place));
    return ops;
}

std::vector<dsl::Op> wide_operations() {
    std::vector<dsl::Op> ops;
    for (const auto& [n, d] : {std::pair(20, 1), {33, 2}, {64, 17}, {70, 40}, {1, 40}, {2, 40}})
        for (const std::size_t in_place : {0, 1}) ops.push_back(operation(n, d, in_place));
    return ops;
}

template <typename T>
T random_value(std::mt19937& random) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>) {
        const T extremes[] = {Limits::min(), Limits::max(), 0, static_cast<T>(-1), 1};
        if (random() % 4 == 0) return extremes[random() % std::size(extremes)];
        return static_cast<T>(std::uint64_t(random()) << 32 | random());
    } else if constexpr (sizeof(T) == sizeof(std::uint16_t)) {
        if (random() % 2) return T(random_value<float>(random));
        return std::bit_cast<T>(static_cast<std::uint16_t>(random()));
    } else {
        const T specials[] = {std::copysign(Limits::quiet_NaN(), T(-1)),
                              Limits::quiet_NaN(),
                              Limits::infinity(),
                              -Limits::infinity(),
                              T(0),
                              -T(0),
                              Limits::denorm_min(),
                              -Limits::denorm_min() * 5,
                              Limits::min(),
                              Limits::max(),
                              Limits::lowest()};
        if (random() % 16 == 0) return specials[random() % std::size(specials)];
        if (random() % 8 == 0) return random() % 2 ? T(0) : -T(0);
        return std::ldexp(T(std::int32_t(random())), int(random() % 40) - 60);
    }
}

template <DataType type>
using Elements = std::vector<typename ElementOf<type>::Stored>;

// A sanitizer checks the interpreter, for which a few shapes are enough, but not generated code.
#ifdef __SANITIZE_ADDRESS__
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

// The areas of one run from the first operand on, in one allocation with room between them: each aligned to
// the element only, or all at the same place in a cache line.
enum class Layout { scattered, congruent };

template <DataType type>
struct Memory {
    using T = typename ElementOf<type>::Stored;
    Layout layout;
    std::size_t stride;
    Elements<type> elements;
    std::vector<std::byte*> areas;

    Memory(std::size_t count, std::size_t areas, Layout layout, std::mt19937& random)
        : layout(layout), stride(count + 19), areas(areas) {
        constexpr std::size_t line = 64 / sizeof(T);
        if (layout == Layout::congruent) stride = (stride / line + 1) * line;
        elements.resize(stride * (areas - first_operand));
        constexpr std::size_t period = 10'007;  // a prime: no two areas get the same numbers
        const std::size_t drawn = std::min(period, elements.size());
        std::generate_n(elements.begin(), drawn, [&] { return random_value<T>(random); });
        for (std::size_t i = drawn; i < elements.size(); i += period)
            std::copy_n(elements.begin(), std::min(period, elements.size() - i), elements.begin() + i);
        lay_out();
    }
    Memory(const Memory& other)
        : layout(other.layout), stride(other.stride), elements(other.elements), areas(other.areas.size()) {
        lay_out();
    }

    void lay_out() {  // scattered, the stride is odd or even with the count: all alignments occur
        for (std::size_t a = first_operand; a < areas.size(); ++a)
            areas[a] = reinterpret_cast<std::byte*>(elements.data() + (a - first_operand) * stride +
                                                    (layout == Layout::congruent ? 3 : a % 5));
    }
};

// Bits, except that which NaN arithmetic gives is not defined, where none is chosen.
template <DataType type>
bool same(const Elements<type>& a, const Elements<type>& b, ReduceOp op) {
    const auto worked = [](const auto& value) {
        return static_cast<typename ElementOf<type>::Worked>(value);
    };
    if (std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0) return true;
    if (test::chooses(op)) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool both_nan = worked(a[i]) != worked(a[i]) && worked(b[i]) != worked(b[i]);
        if (!both_nan && std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return false;
    }
    return true;
}

// A row's code for the program, against the interpreter.
template <DataType type>
class Comparison {
  public:
    // ranks: for an operator that divides by their number; every operation's result is then complete.
    Comparison(ReduceOp op, dsl::RankProgram program, dsl::Rank ranks = 3,
               engine::ExecutorKind compiled = engine::ExecutorKind::jit)
        : op_(op),
          program_(complete(std::move(program), ranks)),
          jit_(engine::Executor::create(compiled, program_, type, op)),
          interpreter_(engine::Executor::create(engine::ExecutorKind::interpreter, program_, type, op)) {}

    // The name of the executor that is compared with the interpreter.
    std::string_view compared() const { return jit_->name(); }

    // Operations first, first + step, ... on the same random numbers.
    void run(std::size_t count, Layout layout, dsl::OpId first, dsl::OpId step) {
        const Memory<type> original(count, program_.areas(), layout, random_);
        std::uint64_t offsets[2];
        jit_->bind(count, offsets);
        for (dsl::OpId id = first; id < program_.ops.size(); id += step) {
            const dsl::Op& op = program_.ops[id];
            Memory<type> actual(original), expected(original);
            interpreter_->run(id, expected.areas.data(), offsets);
            jit_->run(id, actual.areas.data(), offsets);
            INFO(name_of(type) << ' ' << name_of(op_) << ", count " << count << ", operation " << id << " of "
                               << op.operands.size() << " operands to area " << op.area << " and "
                               << op.also.size() << " more");
            REQUIRE(same<type>(actual.elements, expected.elements, op_));
        }
    }

  private:
    static dsl::RankProgram complete(dsl::RankProgram program, dsl::Rank ranks) {
        program.ranks = ranks;
        for (dsl::Op& op : program.ops) op.completes = op.kind == dsl::Op::Kind::combine;
        return program;
    }

    ReduceOp op_;
    dsl::RankProgram program_;
    std::unique_ptr<engine::Executor> jit_, interpreter_;
    std::mt19937 random_{7};
};

// The operator for which all forms of a type's operations are tried: the other operators differ in one
// instruction.
ReduceOp first_op(DataType type) {
    return *std::ranges::find_if(all_ops, [&](ReduceOp op) { return supports(op, type); });
}

template <DataType type>
void compare_small(ReduceOp op) {
    const bool is_first = op == first_op(type), many = is_first && type == DataType::int32 && !is_sanitized;
    // Operators differ in one instruction: usually, all forms of some are tried for each type.
    if (!is_first && !test::is_long_form() && (static_cast<int>(op) + static_cast<int>(type)) % 5 != 0)
        return;
    const std::size_t one_of =
        std::getenv("HOCKET_JIT_LONG") && many ? 1 : test::in_long_form(many ? 3 : 9, many ? 6 : 17);
    Comparison<type> comparison(op, program_of(is_first ? many_operations(one_of) : few_operations()));
    const std::size_t step = is_first ? 7 : 1;
    for (std::size_t count = 0; count <= 70; count += is_first ? 1 : 5)
        comparison.run(count, Layout::scattered, count % step, step);
    for (const std::size_t count : {129u, 1000u, 4099u})
        comparison.run(count, Layout::scattered, is_first ? count % 17 : 0, is_first ? 17 : 1);
    // A power of two, and more than there are numbers of one byte.
    for (const dsl::Rank ranks : {8, 128, 300}) {
        if (!row_of(op).divides) break;
        Comparison<type> divided(op, program_of(wide_operations()), ranks);
        for (const std::size_t count : {33u, 700u}) divided.run(count, Layout::scattered, 0, 1);
    }
    if (!is_first) return;
    Comparison<type> wide(op, program_of(wide_operations()));
    for (const std::size_t count : {1u, 33u, 255u, 256u, 700u}) wide.run(count, Layout::scattered, 0, 1);
}

// Operations so large that they stream, and such that must not because of where their areas are.
template <DataType type>
void compare_large(ReduceOp op) {
    struct Shape {
        std::size_t operands, destinations, in_place;
    };
    constexpr bool all = type == DataType::int32 && !is_sanitized;
    int number = static_cast<int>(type);  // usually, shapes come by turns
    for (const auto& [n, d, in_place] : {Shape{1, 1, 0},
                                         {1, 1, 1},
                                         {1, 3, 1},
                                         {1, 17, 1},
                                         {2, 1, 0},
                                         {2, 2, 0},
                                         {2, 2, 1},
                                         {3, 5, 0},
                                         {16, 4, 0},
                                         {17, 1, 0},
                                         {18, 18, 0}}) {
        // Each takes as much memory as the processor's cache has. The rules for streaming depend on no type.
        if (!all && (in_place > 0 || d == 2 || n + d > 8)) continue;
        if (number++ % test::in_long_form(1, 3) != 0) continue;
        Comparison<type> comparison(op, program_of({operation(n, d, in_place)}));
        const std::size_t count = jit::least_streamed_bytes(n, d) / element_size(type);
        for (const Layout layout : {Layout::congruent, Layout::scattered})
            comparison.run(count + 1 + 7 * d, layout, 0, 1);
    }
}

// The kernel that came with Hocket, against the interpreter. Averages are divided by some numbers of ranks.
template <DataType type>
void compare_precompiled(const jit::KernelShape& shape) {
    const std::size_t n = shape.operands, d = shape.destinations;
    const bool divides = shape.divisor == jit::KernelShape::divisor_by_call;
    const ReduceOp op = divides ? ReduceOp::average : shape.op;
    for (const dsl::Rank ranks : divides ? std::vector<dsl::Rank>{2, 3, 1000} : std::vector<dsl::Rank>{2})
        for (const bool is_in_place : {false, true}) {
            if (shape.streamed && is_in_place) continue;  // those never stream
            Comparison<type> comparison(op, program_of({operation(n, d, is_in_place ? std::min(n, d) : 0)}),
                                        ranks, engine::ExecutorKind::automatic);
            REQUIRE(comparison.compared() == "precompiled");
            if (shape.streamed) {
                const std::size_t count = jit::least_streamed_bytes(n, d) / element_size(type) + 1000;
                comparison.run(count, Layout::congruent, 0, 1);
            } else {
                for (const std::size_t count : {0, 1, 7, 33, 64, 500})
                    comparison.run(count, Layout::scattered, 0, 1);
            }
        }
}

}  // namespace

TEST_CASE("generated combines and copies give the interpreter's bits") {
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops)
            if (supports(op, type))
                with_type(type, [&]<DataType row>(TypeConstant<row>) { compare_small<row>(op); });
}

TEST_CASE("precompiled kernels give the interpreter's bits") {
    if (jit::precompiled_kernels.empty())
        HOCKET_SKIP("this build has none: it is without LLVM, for a sanitizer, or for another machine");
    if (!jit::has_precompiled_code()) HOCKET_SKIP("this machine cannot run them");
    test::keep_freed_memory();
    REQUIRE(jit::precompiled_kernels.size() == jit::usual_shapes().size());
    std::size_t streamed = 0, number = 0;
    for (const jit::KernelShape& shape : jit::usual_shapes()) {
        // Streaming shapes take many megabytes each, and differ from the others only in their stores.
        if (shape.streamed ? streamed++ % test::in_long_form(23, 67) != 0
                           : number++ % test::in_long_form(1, 5) != 0)
            continue;
        INFO(name_of(shape));
        REQUIRE(jit::precompiled_code(shape) != nullptr);
        with_type(shape.type, [&]<DataType type>(TypeConstant<type>) { compare_precompiled<type>(shape); });
    }
}

TEST_CASE("a program is of precompiled kernels only if all its kernels are") {
    if (!jit::has_precompiled_code()) HOCKET_SKIP("there are none here");
    const auto found = [](std::vector<dsl::Op> ops, ReduceOp op) {
        return jit::CompiledProgram::of_precompiled(program_of(std::move(ops)), DataType::float32, op) !=
               nullptr;
    };
    CHECK(found({operation(2, 1, 1), operation(4, 4, 4), operation(1, 8, 1)}, ReduceOp::sum));
    CHECK_FALSE(found({operation(2, 1, 1), operation(9, 1, 1)}, ReduceOp::sum));
    CHECK_FALSE(found({operation(9, 1, 1), operation(2, 1, 1)}, ReduceOp::sum));
    CHECK_FALSE(found({operation(2, 1, 1)}, ReduceOp::product));
    CHECK(found({operation(2, 1, 1)}, ReduceOp::premul_sum));
}

// Kernels that stream differ from the others in their stores alone: one operator, and one type of each size
// and kind.
TEST_CASE("generated operations that stream give the interpreter's bits") {
    test::keep_freed_memory();
    std::set<std::pair<std::size_t, unsigned>> compared;
    for (const DataType type : all_types)
        if (compared.emplace(element_size(type), row_of(type).kind).second)
            with_type(type, [&]<DataType row>(TypeConstant<row>) { compare_large<row>(first_op(row)); });
}
