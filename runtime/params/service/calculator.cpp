#include "runtime/params/service/calculator.hpp"

#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/kernels.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/params/service/update_rule.hpp"

namespace hocket::params {
namespace {

using Rules = std::map<DataType, UpdateRule>;

Rules rules_of(const Job& job, const UpdateOptions& options) {
    Rules rules;
    for (const Tensor& tensor : job.tensors)
        if (!rules.contains(tensor.type))
            rules.emplace(tensor.type,
                          UpdateRule::find(job.update, options.schedule_path, tensor.type, options.compiled));
    return rules;
}

// Returns the kernel that plans would use: the one that came with Hocket, or else one compiled now. Returns
// null if there is none.
jit::Code kernel_of(const jit::KernelShape& shape) {
    jit::Code code = nullptr;
    jit::try_to_compile([&] {
        jit::Kernel* const precompiled = jit::find_precompiled_kernel(shape);
        code = (precompiled ? *precompiled : jit::find_kernel(shape)).code();
    });
    return code;
}

class RuleCalculator final : public Calculator {
  public:
    RuleCalculator(Rules rules, bool compiled) : rules_(std::move(rules)), compiled_(compiled) {}

    void sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
             std::byte* to) const override;

    std::size_t states() const override { return rules_.begin()->second.states(); }
    std::uint64_t state_bytes(DataType type) const override {
        return element_size(rules_.at(type).state_type());
    }
    void update(DataType type, std::span<const std::byte* const> before, const std::byte* gradient,
                std::uint64_t count, std::span<const std::uint64_t> tensors, Round round,
                std::span<std::byte* const> after) const override {
        rules_.at(type).apply({before[0], before.subspan(1)}, gradient, count, tensors,
                              {round.workers, round.number}, {after[0], after.subspan(1)});
    }

  private:
    const Rules rules_;
    const bool compiled_;
};

void RuleCalculator::sum(DataType type, std::span<const std::byte* const> parts, std::uint64_t count,
                         std::byte* to) const {
    const std::uint64_t bytes = count * element_size(type);
    if (parts.size() == 1) {
        std::memcpy(to, parts[0], bytes);
        return;
    }
    const auto shape = jit::KernelShape::of(type, ReduceOp::sum, parts.size(), 1);
    const jit::Code code = compiled_ ? kernel_of(shape) : nullptr;
    if (!code) return kernels::combine(type, ReduceOp::sum, {{to}}, parts, count);
    thread_local std::vector<std::byte*> areas;
    thread_local std::vector<std::uint32_t> numbers;
    areas.assign(1, to);
    for (const std::byte* const part : parts) areas.push_back(const_cast<std::byte*>(part));
    numbers.resize(areas.size());
    std::iota(numbers.begin(), numbers.end(), 0U);
    code(areas.data(), numbers.data(), 0, bytes, parts.size(), 1);
}

}  // namespace

void settle_update(Job& job, const UpdateOptions& options) {
    const Rules rules = rules_of(job, options);
    job.update = rules.begin()->second.text();
    job.cuts_tensors = !rules.begin()->second.needs_whole_tensors();
}

MakeCalculator calculate_updates(UpdateOptions options) {
    return [options = std::move(options)](const Job& job) {
        return std::make_shared<RuleCalculator>(rules_of(job, options), options.compiled);
    };
}

}  // namespace hocket::params
