// An update that adds, and whose state shows whether servers keep states correctly.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/params/service/calculator.hpp"

namespace hocket::test {

// w = w + g. Each element counts its rounds, and each round looks at the counts.
class Adding final : public params::Calculator {
  public:
    void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
             std::byte* to) const override {
        kernels::combine(type, ReduceOp::sum, {{to}}, parts, count);
    }
    std::size_t states() const override { return 1; }
    std::uint64_t state_bytes(DataType) const override { return sizeof(std::uint64_t); }
    void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                std::uint64_t count, std::span<const std::uint64_t>, Round round,
                std::span<std::byte* const> after) const override {
        const std::byte* const operands[] = {before[0], gradient};
        std::byte* const to[] = {after[0]};
        kernels::combine(type, ReduceOp::sum, to, operands, count);
        const auto* const old = reinterpret_cast<const std::uint64_t*>(before[1]);
        auto* const counts = reinterpret_cast<std::uint64_t*>(after[1]);
        for (std::uint64_t i = 0; i < count; ++i) {
            counts[i] = old[i] + 1;
            if (counts[i] != round.number)
                throw std::logic_error(
                    fmt::format("round {} finds {} rounds in the state of element {} of {}", round.number,
                                old[i], i, count));
        }
    }
};

inline std::shared_ptr<const params::Calculator> adding(const params::Job&) {
    return std::make_shared<Adding>();
}

}  // namespace hocket::test
