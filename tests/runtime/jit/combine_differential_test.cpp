// Generated combine kernels against the plain C++ ones, bit for bit.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/jit/compiled_program.hpp"
#include "runtime/kernels/cpu/combine.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

namespace {

// Operand k of every combine is area 3 + k, and area 1 is a destination of its own.
constexpr dsl::AreaId first_operand = dsl::first_scratch_area;
constexpr std::size_t most_operands = 70;

dsl::Op combine_op(std::size_t arity, dsl::AreaId destination) {
    dsl::Op op{.kind = dsl::Op::Kind::combine,
               .begin = 0,
               .end = 1,
               .area = destination,
               .operands = {},
               .successors = {}};
    for (std::size_t k = 0; k < arity; ++k) op.operands.push_back(first_operand + k);
    return op;
}

// All arities from 2 to 20 with every choice of destination, and some large ones.
dsl::RankProgram all_combines() {
    dsl::RankProgram program{};
    program.boundaries = {dsl::Rational(0), dsl::Rational(1)};
    program.scratch.resize(most_operands, {0, 1});
    for (std::size_t arity = 2; arity <= 20; ++arity) {
        program.ops.push_back(combine_op(arity, dsl::output_area));
        for (std::size_t k = 0; k < arity; ++k) program.ops.push_back(combine_op(arity, first_operand + k));
    }
    for (const std::size_t arity : {33u, 64u, 70u})
        for (const dsl::AreaId destination : {dsl::AreaId(dsl::output_area), first_operand + 32})
            program.ops.push_back(combine_op(arity, destination));
    return program;
}

template <typename T>
T random_value(std::mt19937& random) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>) {
        const T extremes[] = {Limits::min(), Limits::max(), 0, -1, 1};
        if (random() % 4 == 0) return extremes[random() % std::size(extremes)];
        return static_cast<T>(std::uint64_t(random()) << 32 | random());
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

// The areas of one run, in one allocation with room between them, each aligned to the element only.
template <typename T>
struct Memory {
    std::vector<T> elements;
    std::vector<std::byte*> areas;

    Memory(std::size_t count, std::mt19937& random) {
        const std::size_t stride = count + 19;  // odd or even with the count: all alignments occur
        elements.resize(stride * (first_operand + most_operands));
        for (T& element : elements) element = random_value<T>(random);
        lay_out(stride);
    }
    Memory(const Memory& other) : elements(other.elements) {
        lay_out(elements.size() / (first_operand + most_operands));
    }

    void lay_out(std::size_t stride) {
        areas.clear();
        for (std::size_t a = 0; a < first_operand + most_operands; ++a)
            areas.push_back(reinterpret_cast<std::byte*>(elements.data() + a * stride + a % 5));
    }
};

// Bits, except that which NaN a sum gives is not defined.
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b, ReduceOp op) {
    if (std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0) return true;
    if (op != ReduceOp::sum) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool both_nan = a[i] != a[i] && b[i] != b[i];
        if (!both_nan && std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return false;
    }
    return true;
}

template <typename T>
void compare(DataType type, ReduceOp op) {
    const dsl::RankProgram program = all_combines();
    const auto compiled = jit::CompiledProgram::compile(program, type, op);
    std::mt19937 random(7);
    const auto compare_at = [&](std::size_t count, dsl::OpId first, dsl::OpId step) {
        const Memory<T> original(count, random);
        std::uint64_t offsets[2];
        compiled->bind(count, offsets);
        for (dsl::OpId id = first; id < program.ops.size(); id += step) {
            const dsl::Op& what = program.ops[id];
            Memory<T> actual(original), expected(original);
            std::vector<const std::byte*> operands;
            for (const dsl::AreaId area : what.operands) operands.push_back(expected.areas[area]);
            kernels::combine(type, op, expected.areas[what.area], operands, count);
            compiled->run(id, actual.areas.data(), offsets);
            INFO(name_of(type) << ' ' << name_of(op) << ", count " << count << ", arity " << operands.size()
                               << ", destination area " << what.area);
            REQUIRE(same(actual.elements, expected.elements, op));
        }
    };
    for (std::size_t count = 0; count <= 70; ++count) compare_at(count, count % 3, 3);
    for (const std::size_t count : {129u, 1000u, 4099u}) compare_at(count, count % 7, 7);
    compare_at(100'003, 0, 61);
}

}  // namespace

TEST_CASE("generated combines give the bits of the plain ones", "[jit]") {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        compare<float>(DataType::float32, op);
        compare<double>(DataType::float64, op);
        compare<std::int32_t>(DataType::int32, op);
        compare<std::int64_t>(DataType::int64, op);
    }
}
