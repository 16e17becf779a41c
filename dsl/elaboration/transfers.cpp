#include "dsl/elaboration/transfers.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/solve.hpp"
#include "dsl/graph/atoms.hpp"

namespace hocket::dsl {

namespace {

constexpr std::size_t work_of_a_look = 1 << 8;  // between two reads of the clock

// Returns the end of a transfer as a condition can compare it, for numbers do not wrap around there.
std::string member_text(const ast::Expression& end, std::int64_t value, const Arena& arena) {
    using Kind = ast::Expression::Kind;
    const std::string text = folded_text(end.span);
    const bool is_simple = end.kind == Kind::name || end.kind == Kind::integer;
    if (is_simple && value >= 0 && value < arena.group.size) return text;
    return fmt::format("{} mod {}", is_simple ? text : "(" + text + ")", arena.size);
}

// where_sees: names in the transfer are known in the head of its each.
std::string hint_to_exclude(const std::string& source, const std::string& destination, bool where_sees) {
    if (source == destination) return "both ends are the same member: name another one";
    return fmt::format("exclude it: {} {} != {}", where_sees ? "each ... where" : "if", destination, source);
}

}  // namespace

Chunks Transfers::chunks(const ast::Expression& region, const Evaluator& evaluator,
                         const Arena& arena) const {
    const Chunks chunks = chunks_of(region, evaluator, arena.group.size);
    if (!arena.in_algorithm) check_can_move(chunks.view, buffer_of(region).span);
    return chunks;
}

// Compositions are checked elsewhere; this is for the schedule's own transfers.
void Transfers::check_can_move(ViewId view, Span span) const {
    const ExtraBuffer* extra = graph_.extra_at(views_[view].buffer());
    if (extra)
        throw DiagnosticError(span, fmt::format("{} cannot be moved by a transfer", extra->name),
                              extra->is_like_x() ? "assign it to x, and move x" : "write all_gather");
}

std::uint32_t Transfers::region_index(Arena& arena, Chunks chunks, Span span) {
    const auto [entry, is_new] = arena.regions.try_emplace(chunks, 0);
    if (is_new) {
        const bool all = chunks.last - chunks.first == arena.group.size;
        if (symmetry_) symmetry_->chunks(views_[chunks.view], arena.group, all, span);
        Region region =
            views_[chunks.view].chunks(topology_, arena.group, arena.members[0], chunks.first, chunks.last);
        count_work(span, region.size());
        entry->second = intern(std::move(region));
    }
    return entry->second;
}

std::uint32_t Transfers::intern(Region region) {
    static_assert(std::has_unique_object_representations_v<Interval>);
    const std::uint64_t hash = XXH3_64bits(region.data(), region.size() * sizeof(Interval));
    const auto [first, last] = region_numbers_.equal_range(hash);
    for (auto known = first; known != last; ++known)
        if (graph_.regions[known->second] == region) return known->second;
    const auto index = static_cast<std::uint32_t>(graph_.regions.size());
    region_numbers_.emplace(hash, index);
    graph_.regions.push_back(std::move(region));
    return index;
}

std::uint32_t Transfers::origin_index(Span transfer, Span call) {
    const auto key = std::pair(transfer.text().data(), call.text().data());
    const auto [entry, is_new] =
        origin_numbers_.emplace(key, static_cast<std::uint32_t>(graph_.origins.size()));
    if (is_new) graph_.origins.push_back({transfer, call});
    return entry->second;
}

void Transfers::lay_out(const ast::Transfer& transfer, Span span, const Scope& scope, Arena& arena,
                        bool where_sees) {
    const Evaluator evaluate = evaluator(scope, &arena);
    const Rank size = arena.group.size;
    const std::int64_t from = evaluate.integer(transfer.source), to = evaluate.integer(transfer.destination);
    const auto source_member = static_cast<Rank>(wrap(from, size));
    const auto destination_member = static_cast<Rank>(wrap(to, size));
    const Rank source = arena.members[source_member], destination = arena.members[destination_member];
    if (!only_.has(source) && !only_.has(destination)) return;
    const Chunks chunks_from = chunks(transfer.region, evaluate, arena);
    const std::uint32_t region = region_index(arena, chunks_from, span);
    std::uint32_t target = region;
    if (transfer.target) {
        const Chunks chunks_to = chunks(*transfer.target, evaluate, arena);
        target = region_index(arena, chunks_to, span);
        if (symmetry_) symmetry_->views(views_[chunks_from.view], views_[chunks_to.view], span);
    }
    if (source == destination && region == target)
        throw DiagnosticError(span,
                              fmt::format("member {} of a group of {} sends to itself", source_member, size),
                              hint_to_exclude(member_text(transfer.source, from, arena),
                                              member_text(transfer.destination, to, arena), where_sees));
    if (region != target) check_alike(transfer, region, target);
    if (region != target && !graph_.extras.empty())
        throw DiagnosticError(span, "a schedule cannot both move data to other places and compute",
                              "use two schedules");
    graph_.moves |= region != target;
    if (watched_ && watched_->index == graph_.steps.size()) watched_->values = scope.numbers_text();
    graph_.steps.push_back({graph_.phases, region, target, source, destination,
                            origin_index(span, arena.call), strand, transfer.combines});
}

// Each boundary is rounded at its own position. Two places therefore have the same length for every count
// only if they have the same position within the ranks' pieces, which all have one length, or within x if x
// is not divided by rank.
void Transfers::check_alike(const ast::Transfer& transfer, std::uint32_t region, std::uint32_t target) {
    if (!alike_.insert(std::uint64_t{region} << 32 | target).second) return;
    const Region &from = graph_.regions[region], &to = graph_.regions[target];
    const auto refuse = [&](std::string message, const char* hint) {
        throw DiagnosticError(transfer.target->span, std::move(message), hint);
    };
    const std::vector<Piece> pieces = pieces_of(from, to);
    if (pieces.back().from.end != from.back().end || pieces.back().to.end != to.back().end)
        refuse("these are not as many elements as are sent",
               "name as many chunks on both sides, of buffers that are divided alike");
    const bool is_by_rank = contract_of(graph_.collective).is_by_rank();
    const Rank alike = is_by_rank ? graph_.ranks : 1;
    for (const Piece& piece : pieces)
        if (place_in_piece(piece.from.begin, alike) != place_in_piece(piece.to.begin, alike))
            refuse(fmt::format(
                       "{} and {} of x lie differently in {}: for some counts one has more elements than "
                       "the other",
                       text_of(from), text_of(to), is_by_rank ? "the ranks' pieces" : "it"),
                   is_by_rank ? "move whole pieces, or the same part of each"
                              : "a piece can only come to another piece's place if x is divided by rank");
}

// Runs one `each`: all its iterations, or those that may concern the wanted rank.
class EachRunner {
  public:
    EachRunner(Transfers& transfers, const ast::Each& each, Scope& scope, Arena& arena)
        : transfers_(transfers),
          each_(each),
          scope_(scope),
          arena_(arena),
          mark_(scope.size()),
          views_mark_(transfers.views_.size()),
          evaluator_(transfers.evaluator(scope, &arena)) {
        for (const ast::Binding& binding : each.bindings) {
            refuse_dependent(binding.range.first);
            if (binding.range.last) refuse_dependent(*binding.range.last);
            domains_.push_back(domain(binding));
        }
        if (each.where) divide_where(*each.where);
        meets_where_ = domains_.size();
        while (meets_where_ > 0 && !where_has(domains_[meets_where_ - 1].name)) --meets_where_;
    }

    void run() {
        refuse_others(each_.body);
        if (transfers_.symmetry_) transfers_.symmetry_->each(each_, domains_, evaluator_, arena_.group);
        std::vector<std::int64_t> values(domains_.size());
        std::vector<std::vector<std::int64_t>> tuples;
        const bool has_found = !transfers_.only_.are_all() && concerned(tuples);
        std::sort(tuples.begin(), tuples.end());
        tuples.erase(std::unique(tuples.begin(), tuples.end()), tuples.end());
        const auto is_empty = [](const Domain& domain) { return domain.begin >= domain.end; };
        if (const auto empty = std::find_if(domains_.begin(), domains_.end(), is_empty);
            empty != domains_.end()) {
            std::vector<Span>& known = transfers_.graph_.empty_ranges;
            const auto& binding = each_.bindings[static_cast<std::size_t>(empty - domains_.begin())];
            if (known.empty()) known.push_back(binding.range.span);
            return;
        }
        for (const Domain& domain : domains_) scope_.add(domain.name, std::int64_t{0});
        if (has_found)
            for (const auto& tuple : tuples) iteration(tuple);
        else
            all(values, 0, std::nullopt, nullptr);
        scope_.shrink(mark_);
    }

  private:
    static std::string hint_for_other(const ast::Statement& statement) {
        if (std::holds_alternative<ast::Assign>(statement.node))
            return "every rank computes: leave the `each` out";
        if (std::holds_alternative<ast::Compose>(statement.node))
            return "a collective runs on all groups at once: leave the `each` out, or write `for`";
        return "put the `for` around the `each`, or add a variable to the `each`";
    }
    static void refuse_others(const std::vector<ast::Statement>& body) {
        for (const ast::Statement& statement : body) {
            if (const auto* choice = std::get_if<ast::If>(&statement.node)) {
                refuse_others(choice->body);
                refuse_others(choice->otherwise);
            } else if (!std::holds_alternative<ast::Transfer>(statement.node) &&
                       !std::holds_alternative<ast::Let>(statement.node)) {
                throw DiagnosticError(statement.span, "`each` may contain only transfers, `let` and `if`",
                                      hint_for_other(statement));
            }
        }
    }

    // The iterations of an `each` are a product, so no range may depend on another of its variables.
    void refuse_dependent(const ast::Expression& expression) const {
        for (const ast::Binding& binding : each_.bindings)
            if (expression.kind == ast::Expression::Kind::name && expression.text == binding.name.text)
                throw DiagnosticError(
                    expression.span,
                    fmt::format("a range of this each depends on its variable '{}'", expression.text),
                    "range over all values, and use where");
        for (const ast::Expression& arg : expression.args) refuse_dependent(arg);
    }

    Domain domain(const ast::Binding& binding) const {
        const ast::Range& range = binding.range;
        if (range.kind == ast::Range::Kind::items)
            return {binding.name.text, 0, evaluator_.group(range.first).size};
        const std::int64_t first = evaluator_.integer(range.first), last = evaluator_.integer(*range.last);
        // Iterations are simultaneous, so counting down is the same as counting up.
        return range.kind == ast::Range::Kind::up ? Domain{binding.name.text, first, last}
                                                  : Domain{binding.name.text, last, first};
    }

    // Finds the iterations in which an endpoint is a wanted rank. Returns false if they cannot be found; then
    // all are walked.
    bool concerned(std::vector<std::vector<std::int64_t>>& tuples) {
        return std::ranges::all_of(transfers_.only_.some(), [&](Rank rank) {
            const auto me = std::find(arena_.members.begin(), arena_.members.end(), rank);
            return me == arena_.members.end() ||
                   concerned(static_cast<Rank>(me - arena_.members.begin()), tuples);
        });
    }

    bool concerned(Rank member, std::vector<std::vector<std::int64_t>>& tuples) {
        if (!each_.lets.empty()) return false;
        for (const ast::Statement& statement : each_.body)
            if (!std::holds_alternative<ast::Transfer>(statement.node)) return false;
        for (const ast::Statement& statement : each_.body) {
            const auto& transfer = std::get<ast::Transfer>(statement.node);
            for (const ast::Expression* endpoint : {&transfer.source, &transfer.destination}) {
                const auto solution = solution_of(*endpoint, member);
                if (!solution) return false;
                std::vector<std::int64_t> values(domains_.size());
                all(values, 0, solution, &tuples);
            }
        }
        return true;
    }

    // A constant part may have no value if `where` keeps it from being evaluated.
    std::optional<Solution> solution_of(const ast::Expression& endpoint, Rank member) const {
        try {
            return solve(endpoint, member, arena_.group.size, domains_, evaluator_);
        } catch (const DiagnosticError&) {
            return std::nullopt;
        }
    }

    // Walks the product of the domains, one of which is narrowed to the solution, and runs or collects the
    // iterations.
    void all(std::vector<std::int64_t>& values, std::size_t depth, const std::optional<Solution>& solution,
             std::vector<std::vector<std::int64_t>>* collected) {
        const bool meets_where = !collected && depth == meets_where_;
        if (!collected && each_.lets.empty() ? !part_holds(depth) : meets_where && !holds()) return;
        if (depth == domains_.size()) {
            collected ? collected->push_back(values) : statements(each_.body);
        } else {
            const auto next = [&](std::int64_t value) {
                transfers_.count_work(each_.bindings[depth].name.span);
                values[depth] = value;
                if (!collected) scope_.set(mark_ + depth, value);
                all(values, depth + 1, solution, collected);
            };
            if (solution && solution->variable == depth)
                for (const std::int64_t value : solution->values) next(value);
            else
                for (std::int64_t value = domains_[depth].begin; value < domains_[depth].end; ++value)
                    next(value);
        }
        if (meets_where) leave();
    }

    void iteration(const std::vector<std::int64_t>& values) {
        for (std::size_t i = 0; i < values.size(); ++i) scope_.set(mark_ + i, values[i]);
        if (!holds()) return;
        statements(each_.body);
        leave();
    }

    // Divides `a and b and c` into its parts. A part is met as soon as its variables and those of the parts
    // before it have values, so that those may keep it from being evaluated.
    void divide_where(const ast::Expression& condition) {
        using Kind = ast::Expression::Kind;
        if (condition.kind == Kind::operation && condition.op == ast::Operator::logical_and) {
            for (const ast::Expression& part : condition.args) divide_where(part);
            return;
        }
        std::size_t depth = domains_.size();
        const std::size_t least = parts_of_where_.empty() ? 0 : parts_of_where_.back().first;
        while (depth > least && !has(condition, domains_[depth - 1].name)) --depth;
        parts_of_where_.emplace_back(depth, &condition);
    }

    // Returns true if the parts of `where` hold that are met at this depth.
    bool part_holds(std::size_t depth) const {
        return std::ranges::all_of(parts_of_where_, [&](const auto& part) {
            return part.first != depth || evaluator_.truth(*part.second);
        });
    }

    // Makes the names before `where`, and returns true if that holds; otherwise forgets them.
    bool holds() {
        for (const ast::Let& let : each_.lets) transfers_.let(let, scope_, &arena_);
        if (!each_.where || evaluator_.truth(*each_.where)) return true;
        leave();
        return false;
    }

    void leave() {
        scope_.shrink(mark_ + domains_.size());
        transfers_.views_.shrink(views_mark_);
    }

    // Returns true if `where`, or a name before it, depends on the variable.
    bool where_has(std::string_view variable) const {
        return (each_.where && has(*each_.where, variable)) ||
               std::any_of(each_.lets.begin(), each_.lets.end(),
                           [&](const ast::Let& let) { return has(let.value, variable); });
    }
    static bool has(const ast::Expression& expression, std::string_view variable) {
        return expression.text == variable ||
               std::any_of(expression.args.begin(), expression.args.end(),
                           [&](const ast::Expression& arg) { return has(arg, variable); });
    }

    void statements(const std::vector<ast::Statement>& list) {
        const std::size_t mark = scope_.size(), views_mark = transfers_.views_.size();
        for (const ast::Statement& statement : list) {
            if (const auto* let = std::get_if<ast::Let>(&statement.node))
                transfers_.let(*let, scope_, &arena_);
            else if (const auto* choice = std::get_if<ast::If>(&statement.node))
                statements(evaluator_.truth(choice->condition) ? choice->body : choice->otherwise);
            else
                transfers_.lay_out(std::get<ast::Transfer>(statement.node), statement.span, scope_, arena_,
                                   scope_.size() == mark_ + domains_.size() + each_.lets.size());
        }
        scope_.shrink(mark);
        transfers_.views_.shrink(views_mark);
    }

    Transfers& transfers_;
    const ast::Each& each_;
    Scope& scope_;
    Arena& arena_;
    std::size_t mark_, views_mark_;
    Evaluator evaluator_;
    std::vector<Domain> domains_;
    std::size_t meets_where_ = 0;  // `where` depends on no variable from here on
    std::vector<std::pair<std::size_t, const ast::Expression*>> parts_of_where_;  // by depth
};

void Transfers::each(const ast::Each& each, Scope& scope, Arena& arena) {
    EachRunner(*this, each, scope, arena).run();
    end_phase();
}

void Transfers::transfer(const ast::Transfer& transfer, Span span, const Scope& scope, Arena& arena) {
    if (symmetry_) throw AsymmetryError(span, "this transfer is between two of them");
    lay_out(transfer, span, scope, arena, false);
    end_phase();
}

void Transfers::let(const ast::Let& let, Scope& scope, const Arena* arena) {
    if (!let.parameters.empty()) return scope.add(let.name.text, function_of(let, scope));
    Value value = evaluator(scope, arena).evaluate(let.value);
    if (const auto* part = std::get_if<PartOf>(&value); part && graph_.extra_at(views_[part->view].buffer()))
        throw DiagnosticError(let.value.span, "only x can be divided by part()",
                              "divide x first: let y = x.part(0 of 2), then make buffers like y");
    if (const auto* part = std::get_if<PartOf>(&value))
        value = ViewRef{views_.add(views_[part->view].part(part->index, part->parts, let.value.span))};
    scope.add(let.name.text, std::move(value));
}

void Transfers::count_work(Span span, std::size_t work) {
    work_ += work;
    if (work_ > most_steps_and_iterations)
        throw TooLargeError(span,
                            fmt::format("this schedule makes more than {} steps and loop iterations",
                                        most_steps_and_iterations),
                            "it is a mistake, or needs fewer ranks");
    if (work_ - looked_ < work_of_a_look) return;
    looked_ = work_;
    deadline_.check("laying out " + location_of(span));
}

}  // namespace hocket::dsl
