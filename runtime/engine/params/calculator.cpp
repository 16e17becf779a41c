#include "runtime/engine/params/calculator.hpp"

#include <fmt/format.h>

#include "runtime/error.hpp"
#include "runtime/kernels/cpu/combine.hpp"

namespace hocket::engine {
namespace {

// w = w + g
class Adding final : public params::Calculator {
  public:
    void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
             std::byte* to) const override {
        kernels::combine(type, ReduceOp::sum, {{to}}, parts, count);
    }
    std::size_t states() const override { return 0; }
    std::uint64_t state_bytes(DataType type) const override { return element_size(type); }
    void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                std::uint64_t count, std::span<const std::uint64_t>, Round,
                std::span<std::byte* const> after) const override {
        const std::byte* const operands[] = {before[0], gradient};
        kernels::combine(type, ReduceOp::sum, after, operands, count);
    }
};

}  // namespace

std::shared_ptr<const params::Calculator> make_calculator(const params::Job& job) {
    if (job.update != "sum")
        throw Error(Status::schedule, fmt::format("there is no update {}; there is sum", job.update));
    return std::make_shared<Adding>();
}

}  // namespace hocket::engine
