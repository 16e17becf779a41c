#include "runtime/compute/program/formula_runner.hpp"

#include <array>

#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/formula_kernel.hpp"
#include "runtime/compute/program/chunk_fold.hpp"
#include "runtime/compute/program/extra_layout.hpp"

namespace hocket::compute {

FormulaRunner::FormulaRunner(const dsl::Formula& formula, const std::vector<DataType>& elements,
                             DataType target, bool compiled)
    : formula_(formula), target_(target) {
    if (compiled) jit::try_to_compile([&] { code_ = jit::find_formula({formula.items, elements, target}); });
}

void FormulaRunner::run(const FormulaInputs& inputs, std::size_t count, std::byte* to) const {
    if (!code_) return run_formula(formula_, inputs, count, target_, to);
    thread_local std::vector<const std::byte*> elements;
    elements.clear();
    for (const FormulaOperand& operand : inputs.elements) elements.push_back(operand.elements);
    code_(to, elements.data(), inputs.parameters.data(), inputs.scalars.data(), count);
}

template <typename T>
double FormulaRunner::fold_as(dsl::Fold fold, const FormulaInputs& inputs, std::size_t count) const {
    std::array<T, formula_block> block;
    std::vector<const std::byte*> elements(inputs.elements.size());
    return chunk_fold<T>(fold, count, [&](std::size_t first, std::size_t n) {
        for (std::size_t i = 0; i < elements.size(); ++i)
            elements[i] = inputs.elements[i].elements + first * element_size(inputs.elements[i].type);
        code_(reinterpret_cast<std::byte*>(block.data()), elements.data(), inputs.parameters.data(),
              inputs.scalars.data(), n);
        return block.data();
    });
}

double FormulaRunner::fold(dsl::Fold fold, const FormulaInputs& inputs, std::size_t count) const {
    if (!code_) return fold_formula(fold, formula_, inputs, count);
    return target_ == DataType::float64 ? fold_as<double>(fold, inputs, count)
                                        : fold_as<float>(fold, inputs, count);
}

std::vector<FormulaRunner> runners_of(const std::vector<dsl::Computation>& computations, DataType type,
                                      bool compiled) {
    std::vector<FormulaRunner> runners;
    for (const dsl::Computation& computation : computations) {
        std::vector<DataType> elements;
        for (const std::int64_t buffer : computation.elements) elements.push_back(type_of(buffer, type));
        const bool is_final =
            computation.kind == dsl::Computation::Kind::assign && computation.sparse.empty();
        runners.emplace_back(computation.formula, elements,
                             is_final ? type_of(computation.target, type) : working_type(type), compiled);
    }
    return runners;
}

}  // namespace hocket::compute
