// Generated kernels against a reference that shares nothing with them, nor with the interpreter's.
#include <numeric>

#include "runtime/compute/jit/kernels.hpp"
#include "tests/runtime/compute/jit/reference.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

TEST_CASE("generated kernels give what the reference gives, for every type and operator") {
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops) {
            if (!supports(op, type)) continue;
            INFO(name_of(op) << " of " << name_of(type));
            // Usually, the numbers of operands come by turns.
            std::vector<std::size_t> operand_counts{2, 3, 17};
            if (!test::is_long_form())
                operand_counts = {
                    operand_counts[(static_cast<unsigned>(op) + static_cast<unsigned>(type)) % 3]};
            CHECK(with_type(type, [&]<DataType row>(TypeConstant<row>) {
                      return test::try_kernels<row>(
                          op, operand_counts, [&](auto& trial, std::uint32_t divisor) {
                              std::vector<std::byte*> areas = trial.destinations();
                              const std::size_t destinations = areas.size();
                              for (const std::byte* operand : trial.operands())
                                  areas.push_back(const_cast<std::byte*>(operand));
                              const std::size_t operands = areas.size() - destinations;
                              std::vector<std::uint32_t> ids(areas.size());
                              std::iota(ids.begin(), ids.end(), 0);
                              const auto shape =
                                  jit::KernelShape::of(row, op, operands, destinations, divisor);
                              jit::find_kernel(shape).code()(areas.data(), ids.data(), 0,
                                                             trial.count() * element_size(row), operands,
                                                             destinations);
                          });
                  }) == 0);
        }
}
