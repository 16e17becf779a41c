// Generated code for numbers of 16 bits, on machines that convert them and on those that don't.
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/compute/jit/kernels.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "tests/runtime/compute/jit/reference.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

namespace {

using Numbers = std::vector<std::uint16_t>;
constexpr std::size_t all = 0x10000;

// Every number there is, with others in no order.
std::array<Numbers, 3> half_operands() {
    std::mt19937 random(11);
    std::array<Numbers, 3> operands;
    for (Numbers& operand : operands) operand.resize(all);
    for (std::size_t i = 0; i < all; ++i) {
        operands[0][i] = static_cast<std::uint16_t>(i);
        operands[1][i] = static_cast<std::uint16_t>(random());
        // Close to the first in size, so that the rounding shows.
        operands[2][i] = static_cast<std::uint16_t>(i ^ (random() & 0x83ff));
    }
    return operands;
}

template <DataType type>
void compare(ReduceOp op, jit::Code code) {
    auto from = half_operands();
    Numbers actual(all), expected(all);
    std::byte* areas[4] = {reinterpret_cast<std::byte*>(actual.data())};
    const std::byte* pointers[3];
    for (std::size_t k = 0; k < 3; ++k)
        pointers[k] = areas[1 + k] = reinterpret_cast<std::byte*>(from[k].data());
    const std::uint32_t area_ids[] = {0, 1, 2, 3};
    code(areas, area_ids, 0, all * sizeof actual[0], 3, 1);
    std::byte* const destination = reinterpret_cast<std::byte*>(expected.data());
    kernels::combine(type, op, {&destination, 1}, pointers, all);
    const auto is_nan = [](std::uint16_t bits) {
        const auto value = static_cast<float>(std::bit_cast<typename ElementOf<type>::Stored>(bits));
        return value != value;
    };
    const bool keeps_bits = test::chooses(op);
    for (std::size_t i = 0; i < all; ++i) {
        // The bits of a NaN that arithmetic makes are not defined.
        if (actual[i] == expected[i] || (!keeps_bits && is_nan(actual[i]) && is_nan(expected[i]))) continue;
        INFO(name_of(op) << " of " << name_of(type) << " " << from[0][i] << ", " << from[1][i] << ", "
                         << from[2][i]);
        REQUIRE(actual[i] == expected[i]);
    }
}

}  // namespace

TEST_CASE("kernels of numbers of 16 bits give the same bits with and without the machine's conversions") {
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops) {
            if (row_of(type).kind != kind::floating || element_size(type) != 2 || !supports(op, type))
                continue;
            const jit::KernelShape shape = jit::KernelShape::of(type, op, 3, 1);
            with_type(type, [&]<DataType row>(TypeConstant<row>) {
                if constexpr (sizeof(typename ElementOf<row>::Stored) == 2) {
                    compare<row>(op, jit::find_kernel(shape).code());
#ifdef __x86_64__
                    jit::with_code_without("f16c", shape, [op](jit::Code code) { compare<row>(op, code); });
#endif
                }
            });
        }
}
