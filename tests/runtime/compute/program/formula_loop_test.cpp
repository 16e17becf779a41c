// Formulas over blocks of elements, against the same formulas one element at a time.
#include "runtime/compute/program/formula_loop.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/half.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::compute;
using dsl::Formula;
using Op = Formula::Op;

namespace {

constexpr DataType types[] = {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16};

struct Buffer {
    DataType type;
    std::vector<std::byte> bytes;
};

struct Inputs {
    std::vector<Buffer> buffers;
    std::vector<double> parameters, scalars;
};

template <typename Call>
auto with_floating(DataType type, Call call) {
    switch (type) {
        case DataType::float64:
            return call(double{});
        case DataType::float16:
            return call(Float16{});
        case DataType::bfloat16:
            return call(BFloat16{});
        default:
            return call(float{});
    }
}

double number_at(const Buffer& buffer, std::size_t i) {
    return with_floating(buffer.type, [&]<typename Stored>(Stored value) {
        std::memcpy(&value, buffer.bytes.data() + i * sizeof value, sizeof value);
        if constexpr (std::is_same_v<Stored, double>)
            return value;
        else
            return static_cast<double>(static_cast<float>(value));
    });
}

// The formula's value for element i, calculated in type T. This function shares no code with the loop.
template <typename T>
T plainly(const Formula& formula, const Inputs& inputs, std::size_t i) {
    std::vector<T> stack;
    const auto pop = [&] {
        const T value = stack.back();
        stack.pop_back();
        return value;
    };
    for (const Formula::Item& item : formula.items) {
        T c = 0, b = 0, a = 0;
        const std::size_t n = operands_of(item.op);
        if (n > 2) c = pop();
        if (n > 1) b = pop();
        if (n > 0) a = pop();
        switch (item.op) {
            case Op::number:
                a = static_cast<T>(item.number);
                break;
            case Op::parameter:
                a = static_cast<T>(inputs.parameters[item.index]);
                break;
            case Op::element:
                a = static_cast<T>(number_at(inputs.buffers[item.index], i));
                break;
            case Op::scalar:
                a = static_cast<T>(inputs.scalars[item.index]);
                break;
            case Op::negate:
                a = -a;
                break;
            case Op::logical_not:
                a = a == 0 ? 1 : 0;
                break;
            case Op::absolute:
                a = std::abs(a);
                break;
            case Op::square_root:
                a = std::sqrt(a);
                break;
            case Op::to_float16:
                a = static_cast<float>(Float16(static_cast<float>(a)));
                break;
            case Op::to_bfloat16:
                a = static_cast<float>(BFloat16(static_cast<float>(a)));
                break;
            case Op::add:
                a = a + b;
                break;
            case Op::subtract:
                a = a - b;
                break;
            case Op::multiply:
                a = a * b;
                break;
            case Op::divide:
                a = a / b;
                break;
            case Op::minimum:  // of two zeros the second
                a = std::isnan(a) || (!std::isnan(b) && a < b) ? a : b;
                break;
            case Op::maximum:
                a = std::isnan(a) || (!std::isnan(b) && a > b) ? a : b;
                break;
            case Op::equal:
                a = a == b ? 1 : 0;
                break;
            case Op::not_equal:
                a = a == b ? 0 : 1;
                break;
            case Op::less:
                a = a < b ? 1 : 0;
                break;
            case Op::less_equal:
                a = a <= b ? 1 : 0;
                break;
            case Op::greater:
                a = a > b ? 1 : 0;
                break;
            case Op::greater_equal:
                a = a >= b ? 1 : 0;
                break;
            case Op::logical_and:
                a = a != 0 && b != 0 ? 1 : 0;
                break;
            case Op::logical_or:
                a = a != 0 || b != 0 ? 1 : 0;
                break;
            case Op::select:
                a = a != 0 ? b : c;
                break;
        }
        stack.push_back(a);
    }
    return stack.back();
}

class Random {
  public:
    explicit Random(unsigned seed) : bits_(seed) {}
    std::size_t below(std::size_t limit) { return bits_() % limit; }

    // A number of any magnitude, and now and then a special one.
    double number() {
        switch (below(24)) {
            case 0:
                return 0;
            case 1:
                return -0.0;
            case 2:
                return std::numeric_limits<double>::infinity();
            case 3:
                return std::numeric_limits<double>::quiet_NaN();
            case 4:
                return 1e-41;
            case 5:
                return 65520;  // float16 rounds it to infinity
            default: {
                const double size =
                    std::ldexp(static_cast<double>(bits_() >> 11), -53 + static_cast<int>(below(20)) - 10);
                return below(2) == 0 ? size : -size;
            }
        }
    }

    Buffer buffer(DataType type, std::size_t count) {
        Buffer result{type, std::vector<std::byte>(count * element_size(type))};
        with_floating(type, [&]<typename Stored>(Stored value) {
            for (std::size_t i = 0; i < count; ++i) {
                if constexpr (std::is_same_v<Stored, double>)
                    value = number();
                else
                    value = Stored(static_cast<float>(number()));
                std::memcpy(result.bytes.data() + i * sizeof value, &value, sizeof value);
            }
        });
        return result;
    }

    // Appends a random expression with up to `levels` levels of operations, over `elements` elements.
    void expression(Formula& formula, int levels, std::size_t elements) {
        const auto index = [&](std::size_t of) { return static_cast<std::uint32_t>(below(of)); };
        if (levels == 0 || below(6) == 0) {
            switch (below(8)) {
                case 0:
                    return formula.items.push_back({Op::number, 0, number()});
                case 1:
                    return formula.items.push_back({Op::parameter, index(2)});
                case 2:
                    return formula.items.push_back({Op::scalar, index(2)});
                default:
                    return formula.items.push_back({Op::element, index(elements)});
            }
        }
        const auto first = static_cast<std::size_t>(Op::negate), last = static_cast<std::size_t>(Op::select);
        const auto op = static_cast<Op>(first + below(last - first + 1));
        for (std::size_t i = 0; i < operands_of(op); ++i) expression(formula, levels - 1, elements);
        formula.push(op);
    }

  private:
    std::mt19937_64 bits_;
};

// The bits of a NaN are not promised.
bool same(const std::byte* a, const std::byte* b, DataType type) {
    return with_floating(type, [&]<typename Stored>(Stored x) {
        Stored y;
        std::memcpy(&x, a, sizeof x);
        std::memcpy(&y, b, sizeof y);
        if (std::memcmp(a, b, sizeof x) == 0) return true;
        if constexpr (std::is_same_v<Stored, double>)
            return std::isnan(x) && std::isnan(y);
        else
            return std::isnan(static_cast<float>(x)) && std::isnan(static_cast<float>(y));
    });
}

struct FormulaCase {
    Formula formula;
    Inputs inputs;
    std::vector<FormulaOperand> operands;
    FormulaInputs view() const { return {operands, inputs.parameters, inputs.scalars}; }
};

FormulaCase random_case(Random& random, std::size_t count, bool with_double) {
    FormulaCase result;
    for (std::size_t i = 0; i < 3; ++i) {
        const DataType type = types[random.below(4)];
        const bool is_other = type == DataType::float64 && !with_double;
        result.inputs.buffers.push_back(random.buffer(is_other ? DataType::float32 : type, count));
    }
    result.inputs.parameters = {random.number(), random.number()};
    result.inputs.scalars = {random.number(), random.number()};
    random.expression(result.formula, 1 + static_cast<int>(random.below(4)), 3);
    for (const Buffer& buffer : result.inputs.buffers)
        result.operands.push_back({buffer.bytes.data(), buffer.type});
    return result;
}

std::string text(const Formula& formula) {
    return text_of(formula, {"a", "b", "c"}, {"sum(m)", "sum(n)"}, {"p", "q"});
}

// The order of runtime/compute/kernels/chunk_order.hpp.
template <typename T>
double sum_plainly(const FormulaCase& given, std::size_t count) {
    double sum = 0;
    for (std::size_t chunk = 0; chunk < count; chunk += 65536) {
        std::vector<T> lanes(256, T{0});
        for (std::size_t i = chunk; i < std::min(chunk + 65536, count); ++i)
            lanes[(i - chunk) % 256] += plainly<T>(given.formula, given.inputs, i);
        for (std::size_t width : {128, 64, 32, 16, 8, 4, 2, 1})
            for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
        sum += lanes[0];
    }
    return sum;
}

}  // namespace

TEST_CASE("a formula over blocks gives what it gives element by element, bit for bit") {
    Random random(1);
    const std::size_t counts[] = {0, 1, 2, 31, 511, 512, 513, 1024, 1500};
    for (int round = 0; round < 4000; ++round) {
        const DataType type = types[round % 4];
        const std::size_t count = counts[random.below(std::size(counts))];
        const FormulaCase given = random_case(random, count, true);
        const std::size_t size = element_size(type);
        std::vector<std::byte> got(count * size), wanted(size);
        run_formula(given.formula, given.view(), count, type, got.data());
        INFO(text(given.formula) << " as " << name_of(type) << " of " << count);
        for (std::size_t i = 0; i < count; ++i) {
            with_floating(type, [&]<typename Stored>(Stored value) {
                if constexpr (std::is_same_v<Stored, double>)
                    value = plainly<double>(given.formula, given.inputs, i);
                else
                    value = Stored(plainly<float>(given.formula, given.inputs, i));
                std::memcpy(wanted.data(), &value, sizeof value);
            });
            if (same(got.data() + i * size, wanted.data(), type)) continue;
            FAIL("element " << i << " differs");
        }
    }
}

TEST_CASE("a formula may write over one of its operands") {
    Random random(2);
    for (int round = 0; round < 400; ++round) {
        const std::size_t count = 500 + random.below(600);
        FormulaCase given = random_case(random, count, true);
        Buffer& target = given.inputs.buffers[random.below(3)];
        std::vector<std::byte> wanted(target.bytes.size());
        run_formula(given.formula, given.view(), count, target.type, wanted.data());
        run_formula(given.formula, given.view(), count, target.type, target.bytes.data());
        INFO(text(given.formula));
        CHECK(std::memcmp(wanted.data(), target.bytes.data(), wanted.size()) == 0);
    }
}

TEST_CASE("sums of formulas are formed lane by lane and chunk by chunk, bit for bit") {
    Random random(3);
    const std::size_t counts[] = {0, 1, 255, 256, 257, 511, 513, 65535, 65536, 65537, 65536 + 512, 140000};
    for (int round = 0; round < 120; ++round) {
        const std::size_t count = counts[static_cast<std::size_t>(round) % std::size(counts)];
        const bool with_double = round % 3 == 0;
        FormulaCase given = random_case(random, count, with_double);
        const bool is_double = std::any_of(given.operands.begin(), given.operands.end(),
                                           [](const auto& one) { return one.type == DataType::float64; });
        const double got = fold_formula(dsl::Fold::sum, given.formula, given.view(), count);
        const double wanted =
            is_double ? sum_plainly<double>(given, count) : sum_plainly<float>(given, count);
        INFO(text(given.formula) << " of " << count << ": " << got << ", not " << wanted);
        CHECK(((std::isnan(got) && std::isnan(wanted)) || std::memcmp(&got, &wanted, sizeof got) == 0));
    }
}

TEST_CASE("the largest value of a formula is a NaN if one is, and minus infinity of nothing") {
    Random random(4);
    const std::size_t counts[] = {0, 1, 255, 513, 65537, 140000};
    for (int round = 0; round < 60; ++round) {
        const std::size_t count = counts[static_cast<std::size_t>(round) % std::size(counts)];
        FormulaCase given = random_case(random, count, false);
        double wanted = -std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < count && !std::isnan(wanted); ++i) {
            const double value = double{plainly<float>(given.formula, given.inputs, i)};
            if (std::isnan(value) || value > wanted) wanted = value;
        }
        const double got = fold_formula(dsl::Fold::largest, given.formula, given.view(), count);
        INFO(text(given.formula) << " of " << count << ": " << got << ", not " << wanted);
        CHECK((got == wanted || (std::isnan(got) && std::isnan(wanted))));
    }
}

TEST_CASE("the largest formulas of all are calculated, with their depth on the stack") {
    Formula formula;
    for (int i = 0; i < 300; ++i) formula.items.push_back({Op::element, 0});
    for (int i = 0; i < 299; ++i) formula.push(Op::subtract);
    CHECK(formula.depth() == 300);
    const std::vector<float> x(600, 0.5f);
    const FormulaOperand operand{reinterpret_cast<const std::byte*>(x.data()), DataType::float32};
    std::vector<float> y(600);
    run_formula(formula, {{&operand, 1}, {}, {}}, 600, DataType::float32,
                reinterpret_cast<std::byte*>(y.data()));
    CHECK(y == std::vector<float>(600, 0.0f));
}
