// Formulas by generated code against the loop that is their definition, bit for bit.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/compute/program/formula_runner.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::compute;
using Op = dsl::Formula::Op;

namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

constexpr std::size_t operands = 3, parameters = 2, scalars = 2;

// A formula that leaves one value; its depth is bounded.
dsl::Formula random_formula(Random& random) {
    dsl::Formula formula;
    std::size_t depth = 0;
    const std::size_t wanted = 1 + below(random, 20);
    while (formula.items.size() < wanted || depth != 1) {
        const bool must_shrink = formula.items.size() >= wanted || depth >= 6;
        const auto op = static_cast<Op>(below(random, static_cast<std::size_t>(Op::select) + 1));
        const std::size_t n = operands_of(op);
        if (n > depth || (must_shrink && n < 2 && depth > 1)) continue;
        dsl::Formula::Item item{op};
        if (op == Op::number) item.number = std::ldexp(static_cast<double>(below(random, 33)) - 16, -2);
        if (op == Op::parameter) item.index = static_cast<std::uint32_t>(below(random, parameters));
        if (op == Op::scalar) item.index = static_cast<std::uint32_t>(below(random, scalars));
        if (op == Op::element) item.index = static_cast<std::uint32_t>(below(random, operands));
        formula.items.push_back(item);
        depth = depth + 1 - n;
    }
    return formula;
}

float special(Random& random) {
    const float values[] = {0.0f,
                            -0.0f,
                            1.0f,
                            -1.0f,
                            1e30f,
                            1e-40f,
                            65504.0f,
                            65520.0f,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            0.1f};
    return values[below(random, std::size(values))];
}

std::vector<std::byte> numbers(Random& random, DataType type, std::size_t count) {
    std::vector<std::byte> bytes(count * element_size(type));
    std::normal_distribution<float> normal(0, 4);
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        if constexpr (row_of(t).kind == kind::floating)
            for (std::size_t i = 0; i < count; ++i)
                reinterpret_cast<Stored*>(bytes.data())[i] =
                    static_cast<Stored>(below(random, 8) == 0 ? special(random) : normal(random));
    });
    return bytes;
}

// The bits of a NaN that a calculation gives are the machine's own.
bool same(DataType type, const std::byte* a, const std::byte* b) {
    return with_type(type, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        using Worked = typename ElementOf<t>::Worked;
        if (std::memcmp(a, b, sizeof(Stored)) == 0) return true;
        Stored x, y;
        std::memcpy(&x, a, sizeof x);
        std::memcpy(&y, b, sizeof y);
        const Worked v = static_cast<Worked>(x), w = static_cast<Worked>(y);
        return v != v && w != w;
    });
}

}  // namespace

TEST_CASE("formulas give the same bits by generated code and by the loop") {
    Random random(20261123);
    const DataType types[] = {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16};
    for (int round = 0; round < test::in_long_form(300, 100); ++round) {
        const dsl::Formula formula = random_formula(random);
        std::vector<DataType> of_operands;
        for (std::size_t i = 0; i < operands; ++i)
            of_operands.push_back(types[below(random, std::size(types))]);
        const DataType target = types[below(random, std::size(types))];
        const std::size_t count = below(random, 3) == 0 ? below(random, 1200) : below(random, 70);
        std::vector<std::vector<std::byte>> data;
        std::vector<FormulaOperand> elements;
        for (const DataType type : of_operands) {
            data.push_back(numbers(random, type, count));
            elements.push_back({data.back().data(), type});
        }
        const double given[] = {0.375, -3.5}, sums[] = {1e10, 0.1};
        const FormulaInputs inputs{elements, given, sums};
        const FormulaRunner loop(formula, of_operands, target, false),
            code(formula, of_operands, target, true);
        std::vector<std::byte> a(count * element_size(target)), b(a.size());
        loop.run(inputs, count, a.data());
        code.run(inputs, count, b.data());
        INFO("round " << round << ": "
                      << text_of(formula, {"x", "y", "z"}, {"sum(m)", "sum(n)"}, {"p", "q"}));
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t at = i * element_size(target);
            if (!same(target, &a[at], &b[at])) {
                INFO("element " << i);
                FAIL("the results differ");
            }
        }
        if (target == DataType::float32 || target == DataType::float64) {
            bool has_double = false;
            for (const DataType type : of_operands) has_double |= type == DataType::float64;
            if (has_double != (target == DataType::float64)) continue;
            for (const dsl::Fold fold : {dsl::Fold::sum, dsl::Fold::largest}) {
                const double x = loop.fold(fold, inputs, count), y = code.fold(fold, inputs, count);
                CHECK((x == y || (x != x && y != y)));
            }
        }
    }
}

TEST_CASE("a formula may write over one of its operands") {
    dsl::Formula formula;
    formula.items = {{Op::element, 0}, {Op::number, 0, 2.0}, {Op::multiply}, {Op::element, 1}, {Op::add}};
    for (const bool compiled : {false, true}) {
        const FormulaRunner runner(formula, {DataType::float32, DataType::float32}, DataType::float32,
                                   compiled);
        std::vector<float> x(1000), y(1000);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i), y[i] = 1;
        auto* const to = reinterpret_cast<std::byte*>(y.data());
        const FormulaOperand elements[] = {{reinterpret_cast<const std::byte*>(x.data()), DataType::float32},
                                           {to, DataType::float32}};
        runner.run({elements, {}, {}}, x.size(), to);
        for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == static_cast<float>(2 * i + 1));
    }
}
