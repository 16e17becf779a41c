#include "dsl/elaboration/symmetry_finder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace hocket::dsl {
namespace {

using ast::Expression;
using ast::Operator;

// The ways in which the members 0 to size - 1 of a group can move: any permutation, a turn by some number, or
// an exclusive or with one.
enum class Way : std::uint8_t { any, turn, flip };

bool is_power_of_two(std::int64_t size) {
    return std::has_single_bit(static_cast<std::uint64_t>(size));
}

// What becomes of an expression's value when some of the variables move like members: it stays, or it moves,
// too.
struct Term {
    bool moves = false;
    std::int64_t weight = 0;  // if all turn by a, it turns by weight * a, modulo the group's size
    bool is_member = false;   // it is in 0 ..< size

    friend bool operator==(const Term&, const Term&) = default;
};
constexpr Term stays{};

// Looks at one `each`, if some of its variables move in one way and the others stay.
class Mover {
  public:
    Mover(const ast::Each& each, const std::vector<Domain>& domains, const Evaluator& evaluator, Rank size,
          Way way, unsigned moving)
        : each_(each), evaluator_(evaluator), size_(size), way_(way) {
        for (std::size_t i = 0; i < domains.size(); ++i)
            names_.emplace_back(domains[i].name, (moving >> i & 1) != 0 ? member() : stays);
    }

    // Returns true if the same iterations run, and their transfers move with the members.
    bool stays_the_same() {
        for (const ast::Let& let : each_.lets) name(let);
        if (each_.where && of(*each_.where) != stays) return false;
        return stay_the_same(each_.body);
    }

  private:
    // A function that is made in the each may use what moves, whatever it is called with.
    void name(const ast::Let& let) {
        names_.emplace_back(let.name.text, let.parameters.empty() ? of(let.value) : std::nullopt);
    }

    bool stay_the_same(const std::vector<ast::Statement>& statements) {
        const std::size_t mark = names_.size();
        for (const ast::Statement& statement : statements) {
            if (const auto* let = std::get_if<ast::Let>(&statement.node)) {
                name(*let);
            } else if (const auto* choice = std::get_if<ast::If>(&statement.node)) {
                // Which side runs may differ from one iteration to the next, so both count.
                if (of(choice->condition) != stays || !stay_the_same(choice->body) ||
                    !stay_the_same(choice->otherwise))
                    return false;
            } else if (!stays_the_same(std::get<ast::Transfer>(statement.node))) {
                return false;
            }
        }
        names_.resize(mark);
        return true;
    }

    bool stays_the_same(const ast::Transfer& transfer) {
        if (!moves_along(transfer.source) || !moves_along(transfer.destination) ||
            !is_always_as_long(transfer.region))
            return false;
        // If two transfers to one member write to the same place, so do those to each other member.
        const Expression& target = transfer.target ? *transfer.target : transfer.region;
        const Expression& buffer = buffer_of(target);
        const auto place = place_of(target);
        // A name of this `each` may stand for one buffer in one iteration and for another in the next.
        if (buffer.kind != Expression::Kind::name || is_variable(buffer.text) || !place ||
            (place_ && *place_ != *place) || (buffer_ && *buffer_ != buffer.text))
            return false;
        place_ = place;
        buffer_ = &buffer.text;
        return true;
    }

    static const Expression& buffer_of(const Expression& region) {
        const bool is_part = region.kind == Expression::Kind::index || region.kind == Expression::Kind::slice;
        return is_part ? region.args[0] : region;
    }
    Term member() const { return {true, reduced(1), true}; }
    std::int64_t reduced(std::int64_t weight) const { return way_ == Way::turn ? wrap(weight, size_) : 1; }

    bool moves_along(const Expression& endpoint) const {
        const auto term = of(endpoint);
        return term && term->moves && term->weight == reduced(1);
    }

    // True if the length of what is moved does not depend on what moves.
    bool is_always_as_long(const Expression& region) const {
        if (of(buffer_of(region)) != stays) return false;
        if (region.kind == Expression::Kind::slice) {
            const auto first = of(region.args[1]), last = of(region.args[2]);
            const bool turn_alike = way_ == Way::turn && first && last && first->weight == last->weight;
            return (first == stays && last == stays) || turn_alike;
        }
        if (!is_block(region)) return true;
        const auto length = constant(region.args[1].args[1]);
        return length && *length >= 1 && size_ % *length == 0;
    }

    static bool is_block(const Expression& region) {
        return region.kind == Expression::Kind::index && region.args[1].kind == Expression::Kind::call &&
               region.args[1].text == "block";
    }

    // Nothing if equal places may become different, or different ones equal.
    std::optional<Term> place_of(const Expression& region) const {
        if (!is_always_as_long(region)) return std::nullopt;
        if (region.kind == Expression::Kind::slice) return of(region.args[1]);
        if (region.kind != Expression::Kind::index) return stays;
        if (!is_block(region)) return of(region.args[1]);
        const auto chunk = of(region.args[1].args[0]);
        const bool moves_as_block = way_ == Way::flip && is_power_of_two(*constant(region.args[1].args[1]));
        return chunk == stays || (chunk && moves_as_block) ? chunk : std::nullopt;
    }

    std::optional<Term> variable(const std::string& name) const {
        for (auto entry = names_.rbegin(); entry != names_.rend(); ++entry)
            if (entry->first == name) return entry->second;
        return stays;
    }
    bool is_variable(const std::string& name) const {
        return std::any_of(names_.begin(), names_.end(),
                           [&](const auto& entry) { return entry.first == name; });
    }
    bool has_variable(const Expression& expression) const {
        const bool has_name =
            expression.kind == Expression::Kind::name || expression.kind == Expression::Kind::call;
        if (has_name && is_variable(expression.text)) return true;
        return std::any_of(expression.args.begin(), expression.args.end(),
                           [&](const Expression& arg) { return has_variable(arg); });
    }
    // The expression's value if it is the same in all iterations.
    std::optional<std::int64_t> constant(const Expression& expression) const {
        if (has_variable(expression)) return std::nullopt;
        try {
            return evaluator_.integer(expression);
        } catch (const DiagnosticError&) {  // `where` may keep it from being evaluated
            return std::nullopt;
        }
    }

    // Nothing if it is not known what becomes of it.
    std::optional<Term> of(const Expression& expression) const {
        if (expression.kind == Expression::Kind::name) return variable(expression.text);
        if (expression.kind == Expression::Kind::operation) {
            const auto a = of(expression.args[0]);
            const auto b = expression.args.size() > 1 ? of(expression.args[1]) : stays;
            if (a == stays && b == stays) return stays;
            return a && b ? operation(expression, *a, *b) : std::nullopt;
        }
        if (expression.kind == Expression::Kind::choice) return choice(expression);
        if (expression.kind == Expression::Kind::call && is_variable(expression.text)) return std::nullopt;
        const bool all_stay = std::all_of(expression.args.begin(), expression.args.end(),
                                          [&](const Expression& arg) { return of(arg) == stays; });
        return all_stay ? std::optional(stays) : std::nullopt;
    }

    // The same side is chosen after the motion if the condition stays. It may differ from one iteration to
    // the next, so both sides must move alike.
    std::optional<Term> choice(const Expression& expression) const {
        const auto a = of(expression.args[1]), b = of(expression.args[2]);
        return of(expression.args[0]) == stays && a == b ? a : std::nullopt;
    }

    // At least one of the operands moves.
    std::optional<Term> operation(const Expression& expression, const Term& a, const Term& b) const {
        switch (expression.op) {
            case Operator::equal:
            case Operator::not_equal:
                return a == b && a.is_member ? std::optional(stays) : std::nullopt;
            case Operator::modulo:
                return b == stays ? remainder(a, constant(expression.args[1])) : std::nullopt;
            case Operator::bit_xor:
                if (way_ != Way::flip) return std::nullopt;
                return a.moves && b.moves ? stays : Term{true, 1, false};
            case Operator::add:
                return sum(a.weight + b.weight);
            case Operator::subtract:
                return sum(a.weight - b.weight);
            case Operator::negate:
                return sum(-a.weight);
            case Operator::multiply:
                if (const auto factor = constant(expression.args[a.moves ? 1 : 0]);
                    factor && !(a.moves && b.moves))
                    return sum(wrap(*factor, size_) * (a.weight + b.weight));
                return std::nullopt;
            default:
                return std::nullopt;
        }
    }

    // Of a sum it is known only what it is modulo the size.
    std::optional<Term> sum(std::int64_t weight) const {
        return way_ == Way::turn ? std::optional(Term{true, reduced(weight), false}) : std::nullopt;
    }

    std::optional<Term> remainder(const Term& term, std::optional<std::int64_t> divisor) const {
        if (!divisor || *divisor < 1 || size_ % *divisor != 0) return std::nullopt;
        if (way_ == Way::turn && term.weight % *divisor == 0) return stays;
        return *divisor == size_ ? std::optional(Term{true, term.weight, true}) : std::nullopt;
    }

    const ast::Each& each_;
    const Evaluator& evaluator_;
    Rank size_;
    Way way_;
    std::vector<std::pair<std::string_view, std::optional<Term>>> names_;
    // Of the transfers so far.
    std::optional<Term> place_;
    const std::string* buffer_ = nullptr;
};

// Variables that run over all members may move with them, or stay.
bool stays_the_same(const ast::Each& each, const std::vector<Domain>& domains, const Evaluator& evaluator,
                    Rank size, Way way) {
    constexpr std::size_t most_variables = 6;
    if (domains.size() > most_variables) return false;
    unsigned over_all = 0;
    for (std::size_t i = 0; i < domains.size(); ++i)
        over_all |= static_cast<unsigned>(domains[i].begin == 0 && domains[i].end == size) << i;
    for (unsigned moving = over_all; moving > 0; moving = (moving - 1) & over_all)
        if (Mover(each, domains, evaluator, size, way, moving).stays_the_same()) return true;
    return false;
}

}  // namespace

SymmetryFinder::SymmetryFinder(const Topology& topology) : topology_(topology) {
    for (const Level& level : topology.levels) levels_.push_back({true, is_power_of_two(level.size)});
}

void SymmetryFinder::each(const ast::Each& each, const std::vector<Domain>& domains,
                          const Evaluator& evaluator, const Group& group) {
    const auto stays_by = [&](Way way) { return stays_the_same(each, domains, evaluator, group.size, way); };
    if (stays_by(Way::any)) return;
    Motions found{stays_by(Way::turn), is_power_of_two(group.size) && stays_by(Way::flip)};
    if (group.size == 2) found.turn = found.flip = found.turn || found.flip;
    const auto is_wide = [&](int level) { return topology_.levels[level].size > 1; };
    const bool is_of_one_level = std::count_if(group.levels.begin(), group.levels.end(), is_wide) == 1;
    const Span span = each.body.empty() ? each.bindings[0].name.span : each.body[0].span;
    if (!found.turn && !found.flip)
        throw AsymmetryError(span, "these transfers are not the same for each of them");
    // Members turn as their coordinates do only if these are of one level.
    found.turn &= is_of_one_level;
    for (const int level : group.levels) {
        if (!is_wide(level)) continue;
        Motions& left = levels_[static_cast<std::size_t>(level)];
        left = {left.turn && found.turn, left.flip && found.flip};
        if (left.turn || left.flip) continue;
        throw AsymmetryError(
            span,
            fmt::format("these transfers are the same for each member of {}, but not if each level moves "
                        "by itself, as other statements or several levels need it",
                        name_of(topology_, group)));
    }
}

Symmetry SymmetryFinder::found() const {
    Symmetry symmetry;
    for (const Motions& level : levels_) symmetry.levels.push_back(level.turn ? Motion::turn : Motion::flip);
    return symmetry;
}

}  // namespace hocket::dsl
