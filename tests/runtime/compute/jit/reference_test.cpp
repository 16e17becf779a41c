// The plain C++ kernels against a reference that shares nothing with them.
#include "tests/runtime/compute/jit/reference.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

TEST_CASE("the interpreter's kernels give what the reference gives, for every type and operator") {
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops) {
            if (!supports(op, type)) continue;
            INFO(name_of(op) << " of " << name_of(type));
            CHECK(with_type(type, [&]<DataType row>(TypeConstant<row>) {
                      return test::try_kernels<row>(
                          op, {2, 3, 4, 7, 16, 17}, [&](auto& trial, std::uint32_t divisor) {
                              kernels::combine(row, op, trial.destinations(), trial.operands(), trial.count(),
                                               divisor);
                          });
                  }) == 0);
        }
}

TEST_CASE("the reference itself tells a number of 16 bits from its neighbours") {
    using test::is_rounded;
    constexpr auto half = DataType::float16, brain = DataType::bfloat16;
    CHECK(is_rounded<half>(0x3c00, 1.));
    CHECK(is_rounded<half>(0x3c00, 1. + 0x1p-11));  // a tie: to the even one
    CHECK_FALSE(is_rounded<half>(0x3c01, 1. + 0x1p-11));
    CHECK(is_rounded<half>(0x3c02, 1. + 3 * 0x1p-11));
    CHECK_FALSE(is_rounded<half>(0x3c01, 1. + 3 * 0x1p-11));
    CHECK(is_rounded<half>(0x7bff, 65519.));
    CHECK(is_rounded<half>(0x7c00, 65520.));
    CHECK_FALSE(is_rounded<half>(0x7bff, 65520.));
    CHECK(is_rounded<half>(0x0001, 0x1p-24));
    CHECK(is_rounded<half>(0x0000, 0x1p-25));
    CHECK(is_rounded<half>(0x8000, -0.));
    CHECK_FALSE(is_rounded<half>(0x0000, -0.));
    CHECK(is_rounded<brain>(0x3f80, 1. + 0x1p-8));
    CHECK_FALSE(is_rounded<brain>(0x3f81, 1. + 0x1p-8));
    CHECK(is_rounded<brain>(0x7f80, 3.4e38));
    CHECK_FALSE(is_rounded<brain>(0x7fc0, 1.));
}
