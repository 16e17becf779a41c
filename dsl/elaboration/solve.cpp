#include "dsl/elaboration/solve.hpp"

#include <algorithm>
#include <bit>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

using ast::Expression;

// Larger numbers are not solved for; the limit is far from overflow.
constexpr std::int64_t limit = std::int64_t{1} << 40;

std::optional<std::size_t> variable_of(const Expression& expression, const std::vector<Domain>& domains) {
    if (expression.kind == Expression::Kind::name)
        for (std::size_t i = domains.size(); i-- > 0;)
            if (domains[i].name == expression.text) return i;
    return std::nullopt;
}

bool depends(const Expression& expression, const std::vector<Domain>& domains) {
    if (variable_of(expression, domains)) return true;
    for (const Expression& arg : expression.args)
        if (depends(arg, domains)) return true;
    return false;
}

// The endpoint as a linear form of its variable. It must be congruent to the member modulo the group's size.
struct Congruence {
    std::size_t variable;
    std::int64_t sign = 1;  // sign * variable + offset
    std::int64_t offset = 0;
};

std::optional<Congruence> linear(const Expression& expression, const std::vector<Domain>& domains,
                                 const Evaluator& evaluator) {
    if (const auto variable = variable_of(expression, domains)) return Congruence{*variable};
    if (expression.kind != Expression::Kind::operation || expression.args.size() != 2) return std::nullopt;
    if (expression.op != ast::Operator::add && expression.op != ast::Operator::subtract) return std::nullopt;
    const bool left = depends(expression.args[0], domains), right = depends(expression.args[1], domains);
    if (left == right) return std::nullopt;
    auto result = linear(expression.args[left ? 0 : 1], domains, evaluator);
    if (!result) return std::nullopt;
    const std::int64_t constant = evaluator.integer(expression.args[left ? 1 : 0]);
    if (constant > limit || constant < -limit || result->offset > limit || result->offset < -limit)
        return std::nullopt;
    const std::int64_t minus = expression.op == ast::Operator::subtract ? -1 : 1;
    if (left) {
        result->offset += minus * constant;
    } else {
        result->sign *= minus;
        result->offset = minus * result->offset + constant;
    }
    return result;
}

// Solves `variable xor constant`, for a constant that is not negative, by trying every value that wraps to
// `member`.
std::optional<Solution> solve_xor(const Expression& expression, Rank member, Rank size,
                                  const std::vector<Domain>& domains, const Evaluator& evaluator) {
    if (expression.kind != Expression::Kind::operation || expression.op != ast::Operator::bit_xor)
        return std::nullopt;
    for (const int side : {0, 1}) {
        const auto variable = variable_of(expression.args[side], domains);
        if (!variable || depends(expression.args[1 - side], domains)) continue;
        const Domain& domain = domains[*variable];
        const std::int64_t constant = evaluator.integer(expression.args[1 - side]);
        if (constant < 0 || domain.begin < 0 || domain.end <= domain.begin) return std::nullopt;
        const auto bits = std::bit_width(static_cast<std::uint64_t>(constant | (domain.end - 1)));
        if (bits > 24 || (std::int64_t{1} << bits) / size > 64) return std::nullopt;
        Solution solution{*variable, {}};
        for (std::int64_t target = member; target < std::int64_t{1} << bits; target += size) {
            const std::int64_t value = target ^ constant;
            if (value >= domain.begin && value < domain.end) solution.values.push_back(value);
        }
        std::sort(solution.values.begin(), solution.values.end());
        return solution;
    }
    return std::nullopt;
}

}  // namespace

std::optional<Solution> solve(const Expression& endpoint, Rank member, Rank size,
                              const std::vector<Domain>& domains, const Evaluator& evaluator) {
    for (const Domain& domain : domains)
        if (domain.begin < -limit || domain.end > limit) return std::nullopt;
    // An endpoint is wrapped around the group in any case.
    if (endpoint.kind == Expression::Kind::operation && endpoint.op == ast::Operator::modulo &&
        !depends(endpoint.args[1], domains) && evaluator.integer(endpoint.args[1]) == size)
        return solve(endpoint.args[0], member, size, domains, evaluator);
    if (auto solution = solve_xor(endpoint, member, size, domains, evaluator)) return solution;
    const auto form = linear(endpoint, domains, evaluator);
    if (!form) return std::nullopt;
    const Domain& domain = domains[form->variable];
    Solution solution{form->variable, {}};
    const std::int64_t residue = wrap(form->sign * (member - form->offset), size);
    for (std::int64_t value = domain.begin + wrap(residue - domain.begin, size); value < domain.end;
         value += size)
        solution.values.push_back(value);
    return solution;
}

}  // namespace hocket::dsl
