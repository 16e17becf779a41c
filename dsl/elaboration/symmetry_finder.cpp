#include "dsl/elaboration/symmetry_finder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
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
// Of products: with larger ones, a sum may leave the range of numbers on some ranks only.
constexpr std::int64_t most_factor = std::int64_t{1} << 20;

// Looks at one `each`, if some of its variables move in one way and the others stay.
class Mover {
  public:
    // with_data: chunk i moves as member i does.
    Mover(const ast::Each& each, const std::vector<Domain>& domains, const Evaluator& evaluator, Rank size,
          Way way, unsigned moving, bool with_data)
        : each_(each), evaluator_(evaluator), size_(size), way_(way), with_data_(with_data) {
        for (std::size_t i = 0; i < domains.size(); ++i)
            names_.emplace_back(domains[i].name, (moving >> i & 1) != 0 ? member() : stays);
        for (std::size_t i = 0; i < domains.size(); ++i)
            if ((moving >> i & 1) != 0) moving_.emplace(domains[i].name);
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
        if (with_data_ && !(moves_as_members(transfer.region) && moves_as_members(target))) return false;
        if (with_data_ && transfer.target && !are_paired(transfer.region, target)) return false;
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
            // The length is what the two differ by before they wrap around.
            const auto first = coefficients(region.args[1]), last = coefficients(region.args[2]);
            const bool has_terms = of(region.args[1]).has_value() && of(region.args[2]).has_value();
            return first && last && *first == *last && (first->empty() || (way_ == Way::turn && has_terms));
        }
        if (!is_block(region)) return true;
        const auto length = constant(region.args[1].args[1]);
        return length && *length >= 1 && size_ % *length == 0;
    }

    // True if a motion of the members brings the chunks to those of the same motion of the numbers of chunks.
    bool moves_as_members(const Expression& region) const {
        if (region.kind == Expression::Kind::name) return true;  // all chunks
        const auto place = place_of(region);
        return place && place->moves && place->weight == reduced(1);
    }

    // True if both are single chunks, or all chunks: they are paired in the same way after each motion.
    static bool are_paired(const Expression& from, const Expression& to) {
        const auto is_chunk = [](const Expression& region) {
            return region.kind == Expression::Kind::index && !is_block(region);
        };
        const bool are_whole = from.kind == Expression::Kind::name && to.kind == Expression::Kind::name;
        return are_whole || (is_chunk(from) && is_chunk(to));
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

    // Returns what the variables that move are multiplied by, in a sum of them and of what stays; nothing for
    // other expressions.
    using Coefficients = std::map<std::string, std::int64_t>;
    std::optional<Coefficients> coefficients(const Expression& expression) const {
        if (of(expression) == stays) return Coefficients();
        if (expression.kind == Expression::Kind::name && moving_.contains(expression.text))
            return Coefficients{{expression.text, 1}};
        if (expression.kind != Expression::Kind::operation) return std::nullopt;
        const auto a = coefficients(expression.args[0]);
        const auto b = expression.args.size() > 1 ? coefficients(expression.args[1]) : Coefficients();
        if (!a || !b) return std::nullopt;
        if (expression.op == Operator::add) return sum_of(*a, *b, 1);
        if (expression.op == Operator::subtract) return sum_of(*a, *b, -1);
        if (expression.op == Operator::negate) return sum_of({}, *a, -1);
        if (expression.op != Operator::multiply || (!a->empty() && !b->empty())) return std::nullopt;
        const auto factor = constant(expression.args[a->empty() ? 0 : 1]);
        return factor && std::abs(*factor) <= most_factor ? sum_of({}, a->empty() ? *b : *a, *factor)
                                                          : std::nullopt;
    }
    static std::optional<Coefficients> sum_of(Coefficients sum, const Coefficients& other,
                                              std::int64_t factor) {
        for (const auto& [name, value] : other) {
            std::int64_t& coefficient = sum[name];
            if (std::abs(value) > most_factor || std::abs(coefficient) > most_factor) return std::nullopt;
            coefficient += factor * value;
            if (coefficient == 0) sum.erase(name);
        }
        return sum;
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
                    factor && std::abs(*factor) <= most_factor && !(a.moves && b.moves))
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
    bool with_data_;
    std::set<std::string, std::less<>> moving_;  // variables of the each
    std::vector<std::pair<std::string_view, std::optional<Term>>> names_;
    // Of the transfers so far.
    std::optional<Term> place_;
    const std::string* buffer_ = nullptr;
};

// Variables that run over all members may move with them, or stay.
bool stays_the_same(const ast::Each& each, const std::vector<Domain>& domains, const Evaluator& evaluator,
                    Rank size, Way way, bool with_data) {
    constexpr std::size_t most_variables = 6;
    if (domains.size() > most_variables) return false;
    unsigned over_all = 0;
    for (std::size_t i = 0; i < domains.size(); ++i)
        over_all |= static_cast<unsigned>(domains[i].begin == 0 && domains[i].end == size) << i;
    for (unsigned moving = over_all; moving > 0; moving = (moving - 1) & over_all)
        if (Mover(each, domains, evaluator, size, way, moving, with_data).stays_the_same()) return true;
    return false;
}

}  // namespace

SymmetryFinder::SymmetryFinder(const Topology& topology, Levels levels)
    : real_(topology), topology_(levels == Levels::as_one ? flat_topology(topology.ranks()) : topology) {
    for (const Level& level : topology_.levels) levels_.push_back({true, is_power_of_two(level.size)});
    with_data_ = levels_;
}

void SymmetryFinder::each(const ast::Each& each, const std::vector<Domain>& domains,
                          const Evaluator& evaluator, const Group& real_group) {
    const Span span = each.body.empty() ? each.bindings[0].name.span : each.body[0].span;
    const bool is_one = topology_.levels.size() < real_.levels.size();
    if (is_one && real_group.size != real_.ranks())
        throw AsymmetryError(span, "these transfers are not over all of them");
    const Group group = is_one ? world_group(topology_) : real_group;
    const auto found = [&](bool with_data) -> Found {
        const auto stays_by = [&](Way way) {
            return stays_the_same(each, domains, evaluator, group.size, way, with_data);
        };
        if (stays_by(Way::any)) return {true, true, true};
        Found found{false, stays_by(Way::turn), is_power_of_two(group.size) && stays_by(Way::flip)};
        if (group.size == 2) found.turn = found.flip = found.turn || found.flip;
        return found;
    };
    const auto refusal = [&](Found of, const char* what) {
        if (!of.turn && !of.flip)
            return AsymmetryError(span, fmt::format("{} are not the same for each of them", what));
        return AsymmetryError(
            span,
            fmt::format("{} are the same for each member of {}, but not if each level moves by itself, as "
                        "other statements or several levels need it",
                        what, name_of(topology_, group)));
    };
    const Found traffic = found(false);
    if (!keep(levels_, traffic, group)) throw refusal(traffic, "these transfers");
    if (no_data_) return;
    const Found with_data = found(true);
    if (!keep(with_data_, with_data, group))
        no_data_ = refusal(with_data, "the pieces that these transfers move");
}

bool SymmetryFinder::keep(Left& left, Found found, const Group& group) const {
    // Members turn as their coordinates do only if these are of one level.
    const auto is_wide = [&](int level) { return topology_.levels[level].size > 1; };
    found.turn &= found.any || std::count_if(group.levels.begin(), group.levels.end(), is_wide) == 1;
    bool has_all = true;
    for (const int level : group.levels) {
        if (!is_wide(level)) continue;
        Motions& motions = left[static_cast<std::size_t>(level)];
        motions = {motions.turn && found.turn, motions.flip && found.flip};
        has_all &= motions.turn || motions.flip;
    }
    return has_all;
}

void SymmetryFinder::divide(const std::vector<View::Digit>& digits, Span at) {
    if (no_data_) return;
    const bool is_one = topology_.levels.size() < real_.levels.size();
    const auto own = is_one ? with_one_level(digits) : digits;
    if (own && cells_.add(*own)) return;
    no_data_ = AsymmetryError(at, "x is divided in two ways, or into too many pieces");
}

// Puts one level in the place of all, if they follow each other from the outermost on, and are scattered
// alike.
std::optional<std::vector<View::Digit>> SymmetryFinder::with_one_level(
    const std::vector<View::Digit>& digits) const {
    std::vector<View::Digit> result;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (digits[i].level < 0) {
            result.push_back(digits[i]);
            continue;
        }
        for (std::size_t level = real_.levels.size(); level-- > 0; ++i)
            if (i == digits.size() || digits[i].level != static_cast<int>(level) ||
                digits[i].scattered != digits[i - (real_.levels.size() - 1 - level)].scattered)
                return std::nullopt;
        View::Digit one = digits[--i];
        one.level = 0;
        one.size = real_.ranks();
        result.push_back(one);
    }
    return result;
}

void SymmetryFinder::pieces(const View& view) {
    divide(view.digits(), Span());
}

void SymmetryFinder::chunks(const View& view, const Group& group, bool all, Span at) {
    std::vector<View::Digit> digits = view.digits();
    const auto is_named = [&](const View::Digit& digit) {
        const bool is_of_group = std::binary_search(group.levels.begin(), group.levels.end(), digit.level);
        return digit.scattered || digit.permanent || (is_of_group && !all);
    };
    while (!digits.empty() && !is_named(digits.back())) digits.pop_back();  // the pieces lie side by side
    divide(digits, at);
}

// A step pairs the pieces of both regions by their order. Motions keep the pairs if both are divided by the
// same levels in the same order: then pieces differ in the digits of these levels alone.
void SymmetryFinder::views(const View& from, const View& to, Span at) {
    if (no_data_ || from.digits() == to.digits()) return;
    no_data_ = AsymmetryError(at, "data come from a buffer to one that is divided in another way");
}

Symmetry SymmetryFinder::symmetry_of(const Left& left) {
    Symmetry symmetry;
    for (const Motions& level : left) symmetry.levels.push_back(level.turn ? Motion::turn : Motion::flip);
    return symmetry;
}

Symmetry SymmetryFinder::found() const {
    return symmetry_of(levels_);
}

DataSymmetry SymmetryFinder::found_with_data(std::int64_t buffers) const {
    if (no_data_) throw *no_data_;
    Cells cells = cells_;
    cells.settle();
    return {topology_, symmetry_of(with_data_), std::move(cells), buffers};
}

}  // namespace hocket::dsl
