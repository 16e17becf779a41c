#include "dsl/elaborate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dsl/bind.hpp"
#include "dsl/diagnostic.hpp"
#include "dsl/solve.hpp"

namespace hocket::dsl {
namespace {

constexpr std::int64_t work_limit =
    1 << 27;  // loop rounds and iterations: a schedule that needs more is a mistake

// Chunks [first, last) of a view, in a group's own numbering.
struct ChunkRange {
    int view = 0;
    Rank first = 0, last = 0;
    auto operator<=>(const ChunkRange&) const = default;
};

// A group of ranks that an algorithm runs on, or all ranks, for a schedule's own transfers.
struct Arena {
    Group group;
    std::vector<Rank> members;
    Span call;
    bool in_algorithm = true;                          // where the topology's names are unknown
    std::map<ChunkRange, std::uint32_t> regions = {};  // index in the graph
};

class Elaborator {
  public:
    Elaborator(const Runnable& runnable, const Library& library, const Topology& topology,
               const ElaborateOptions& options)
        : runnable_(runnable), library_(library), topology_(topology), options_(options) {}

    StepGraph run();

  private:
    void statements(const std::vector<ast::Statement>& list, Scope& scope, Arena* arena);
    void statement(const ast::Statement& statement, Scope& scope, Arena* arena);
    void for_loop(const ast::For& loop, Scope& scope, Arena* arena);
    void parallel(const ast::Parallel& loop, Span span, Scope& scope, Arena* arena);
    void let(const ast::Let& let, Scope& scope, Arena* arena);
    void each(const ast::Each& each, Scope& scope, Arena& arena);
    void compose(const ast::Compose& compose, Span span, Scope& scope);
    void run_algorithm(const ast::Algorithm& algorithm, const Group& group, int view, Rank root,
                       const std::vector<Rank>& anchors, Span call);
    void own_transfers(const ast::Statement& statement, Scope& scope);
    const ast::Algorithm& algorithm_for(const ast::Compose& compose, const Group& group, const Scope& scope,
                                        Span span);
    std::vector<Rank> anchors(const Group& group) const;

    void transfer(const ast::Transfer& transfer, Span span, const Scope& scope, Arena& arena);
    ChunkRange chunk_range(const ast::Expression& region, const Evaluator& evaluator,
                           const Arena& arena) const;
    std::uint32_t region_index(Arena& arena, ChunkRange chunks);
    std::uint32_t origin_index(Span transfer, Span call);

    Evaluator evaluator(const Scope& scope, const Arena* arena) const {
        return {scope, arena && arena->in_algorithm ? nullptr : &topology_};
    }
    void count_work(Span span) {
        if (++work_ > work_limit)
            throw DiagnosticError(
                span, fmt::format("this schedule makes more than {} steps and loop rounds", work_limit));
    }

    const Runnable& runnable_;
    const Library& library_;
    const Topology& topology_;
    const ElaborateOptions& options_;
    StepGraph graph_;
    std::vector<View> views_;
    std::map<std::pair<const char*, const char*>, std::uint32_t>
        origin_numbers_;  // by the statements' places in memory
    std::uint32_t strand_ = 0, blocks_ = 0;
    std::int64_t work_ = 0;
    friend class EachRunner;
};

View initial_view(const Topology& topology, Collective collective) {
    if (collective == Collective::reduce_scatter) return View::by_rank(topology, false);
    if (collective == Collective::all_gather) return View::by_rank(topology, true);
    return View();
}

StepGraph Elaborator::run() {
    graph_.collective = runnable_.collective();
    graph_.ranks = topology_.ranks();
    graph_.root = options_.root;
    const View own = View::by_rank(topology_, true);
    const Rank first = options_.only.value_or(0), last = options_.only ? first + 1 : graph_.ranks;
    for (Rank rank = first; rank < last; ++rank) graph_.owned.push_back(own.held(topology_, rank));

    views_.push_back(initial_view(topology_, graph_.collective));
    if (runnable_.schedule) {
        graph_.header = runnable_.schedule->span;
        Scope scope = runnable_.arguments;
        scope.add(runnable_.schedule->buffer.text, ViewRef{0});
        if (runnable_.schedule->root) scope.add(runnable_.schedule->root->text, std::int64_t{options_.root});
        statements(runnable_.schedule->body, scope, nullptr);
    } else {
        graph_.header = runnable_.algorithm->span;
        const Group world = world_group(topology_);
        views_[0].divide(topology_, world);
        if (world.size > 1) run_algorithm(*runnable_.algorithm, world, 0, options_.root, {0}, Span());
    }
    return std::move(graph_);
}

void Elaborator::statements(const std::vector<ast::Statement>& list, Scope& scope, Arena* arena) {
    const std::size_t mark = scope.size();
    for (const ast::Statement& item : list) statement(item, scope, arena);
    scope.shrink(mark);
}

void Elaborator::statement(const ast::Statement& statement, Scope& scope, Arena* arena) {
    count_work(statement.span);
    const auto& node = statement.node;
    if (const auto* loop = std::get_if<ast::For>(&node)) return for_loop(*loop, scope, arena);
    if (const auto* loop = std::get_if<ast::Parallel>(&node))
        return parallel(*loop, statement.span, scope, arena);
    if (const auto* binding = std::get_if<ast::Let>(&node)) return let(*binding, scope, arena);
    if (const auto* composition = std::get_if<ast::Compose>(&node)) {
        if (arena)
            throw DiagnosticError(statement.span, "an algorithm consists of transfers",
                                  "compose collectives in a schedule");
        return compose(*composition, statement.span, scope);
    }
    if (!arena) return own_transfers(statement, scope);
    if (const auto* loop = std::get_if<ast::Each>(&node)) return each(*loop, scope, *arena);
    transfer(std::get<ast::Transfer>(node), statement.span, scope, *arena);
    ++graph_.phases;
}

// A schedule's own transfers are between all ranks, and see the buffers divided over all levels.
void Elaborator::own_transfers(const ast::Statement& statement, Scope& scope) {
    Arena world{world_group(topology_), {}, Span(), false};
    world.members = members_of(topology_, world.group, 0);
    const std::vector<View> undivided = views_;
    for (View& view : views_) view.divide(topology_, world.group);
    this->statement(statement, scope, &world);
    views_ = undivided;
}

void Elaborator::for_loop(const ast::For& loop, Scope& scope, Arena* arena) {
    for (Value& value : values_of(loop.binding.range, evaluator(scope, arena))) {
        count_work(loop.binding.name.span);
        const std::size_t mark = scope.size();
        scope.add(loop.binding.name.text, std::move(value));
        statements(loop.body, scope, arena);
        scope.shrink(mark);
    }
}

void Elaborator::parallel(const ast::Parallel& loop, Span span, Scope& scope, Arena* arena) {
    const std::uint32_t parent = strand_, block = ++blocks_;
    for (Value& value : values_of(loop.binding.range, evaluator(scope, arena))) {
        graph_.strands.push_back({parent, block, span});
        strand_ = static_cast<std::uint32_t>(graph_.strands.size() - 1);
        const std::size_t mark = scope.size();
        scope.add(loop.binding.name.text, std::move(value));
        statements(loop.body, scope, arena);
        scope.shrink(mark);
    }
    strand_ = parent;
}

void Elaborator::let(const ast::Let& let, Scope& scope, Arena* arena) {
    Value value = evaluator(scope, arena).evaluate(let.value);
    if (const auto* part = std::get_if<PartOf>(&value)) {
        views_.push_back(views_[part->view].part(part->index, part->parts));
        value = ViewRef{static_cast<int>(views_.size() - 1)};
    }
    scope.add(let.name.text, std::move(value));
}

// ---- Composition
// -------------------------------------------------------------------------------------------

const ast::Algorithm& Elaborator::algorithm_for(const ast::Compose& compose, const Group& group,
                                                const Scope& scope, Span span) {
    if (!compose.algorithm) return options_.choose(compose.collective, group, span, graph_.choices);
    const ast::Expression& named = *compose.algorithm;
    std::string name = named.text;
    if (named.kind != ast::Expression::Kind::name)
        throw DiagnosticError(named.span, "expected an algorithm's name");
    if (const Value* value = scope.find(name)) {
        const auto* symbol = std::get_if<Symbol>(value);
        if (!symbol)
            throw DiagnosticError(
                named.span, fmt::format("expected an algorithm, but '{}' is {}", name, kind_of(*value)));
        name = symbol->name;
    }
    const ast::Algorithm* algorithm = library_.find_algorithm(name, compose.collective);
    if (!algorithm) {
        std::string known;
        for (const ast::Algorithm* other : library_.algorithms(compose.collective))
            known += (known.empty() ? "" : ", ") + other->name.text;
        throw DiagnosticError(
            named.span, fmt::format("there is no algorithm '{}' for {}", name, name_of(compose.collective)),
            known.empty() ? library_.where_looked() : "there are: " + known);
    }
    return *algorithm;
}

// One rank of each group; when one rank's steps are wanted, only that rank's group.
std::vector<Rank> Elaborator::anchors(const Group& group) const {
    if (options_.only) return {*options_.only};
    std::vector<Rank> result;
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        bool first = true;
        for (const int level : group.levels) first &= topology_.coordinate(rank, level) == 0;
        if (first) result.push_back(rank);
    }
    return result;
}

void Elaborator::compose(const ast::Compose& compose, Span span, Scope& scope) {
    const Evaluator evaluate = evaluator(scope, nullptr);
    const Value region = evaluate.evaluate(compose.region);
    const auto* reference = std::get_if<ViewRef>(&region);
    if (!reference)
        throw DiagnosticError(compose.region.span,
                              fmt::format("expected a buffer, but this is {}", kind_of(region)),
                              "give a part its name first: let y = x.part(0 of 2)");
    View& view = views_[reference->index];
    const Group group = evaluate.group(compose.group);
    const std::string over = name_of(topology_, group);
    const View::Division division = view.division(group);
    const bool gathers = compose.collective == Collective::all_gather;
    if (gathers && division != View::Division::scattered)
        throw DiagnosticError(
            span, fmt::format("the buffer is not scattered over {}: there is nothing to gather", over),
            "reduce_scatter it over the same levels first");
    if (!gathers && (division == View::Division::scattered || division == View::Division::mixed))
        throw DiagnosticError(
            span, fmt::format("the buffer is scattered over {}: its ranks hold different parts of it", over),
            "all_gather it over the same levels first");

    // Broadcast: only the groups take part that the root's data has reached.
    const bool broadcasts = compose.collective == Collective::broadcast;
    if (broadcasts && !compose.from)
        throw DiagnosticError(span, "a broadcast needs its root", "write: broadcast x over l from root");
    if (!broadcasts && compose.from) throw DiagnosticError(compose.from->span, "only a broadcast has a root");
    const Rank root = broadcasts ? static_cast<Rank>(wrap(evaluate.integer(*compose.from), graph_.ranks)) : 0;
    view.divide(topology_, group);
    std::vector<Rank> taking_part;
    for (const Rank rank : anchors(group)) {
        if (broadcasts && !view.reached(topology_, group, root, rank)) continue;
        taking_part.push_back(rank);
    }
    if (group.size > 1)
        run_algorithm(algorithm_for(compose, group, scope, span), group, reference->index, root, taking_part,
                      span);
    if (compose.collective == Collective::reduce_scatter)
        view.scatter(group);
    else
        view.gather(group);
    if (broadcasts) view.reach(group);
}

void Elaborator::run_algorithm(const ast::Algorithm& algorithm, const Group& group, int view, Rank root,
                               const std::vector<Rank>& anchors, Span call) {
    if (!is_allowed(algorithm, group))
        throw ConditionError(
            Diagnostic{call.file ? call : algorithm.span,
                       fmt::format("{} cannot run on a group of {} ranks ({})", algorithm.name.text,
                                   group.size, name_of(topology_, group)),
                       {{algorithm.where->span, "because of this condition"}},
                       "choose another algorithm, or leave `using` out to let the compiler choose"});
    if (algorithm.root.has_value() != (algorithm.collective == Collective::broadcast))
        throw DiagnosticError(algorithm.span,
                              algorithm.root ? "only a broadcast has a root" : "a broadcast needs a root",
                              "write: algorithm name broadcast(x, root) over g { ... }");
    if (options_.on_use) options_.on_use(algorithm, group.size, call);
    for (const Rank anchor : anchors) {
        Arena arena{group, members_of(topology_, group, anchor), call};
        Scope scope;
        scope.add(algorithm.buffer.text, ViewRef{view});
        scope.add(algorithm.group.text, group);
        if (algorithm.root) {
            std::int64_t member = 0, stride = 1;
            for (const int level : group.levels) {
                member += stride * topology_.coordinate(root, level);
                stride *= topology_.levels[level].size;
            }
            scope.add(algorithm.root->text, member);
        }
        statements(algorithm.body, scope, &arena);
    }
}

// ---- Transfers
// ---------------------------------------------------------------------------------------------

ChunkRange Elaborator::chunk_range(const ast::Expression& region, const Evaluator& evaluator,
                                   const Arena& arena) const {
    using Kind = ast::Expression::Kind;
    const Rank size = arena.group.size;
    const bool indexed = region.kind == Kind::index || region.kind == Kind::slice;
    const ast::Expression& base = indexed ? region.args[0] : region;
    const Value buffer = evaluator.evaluate(base);
    const auto* reference = std::get_if<ViewRef>(&buffer);
    if (!reference)
        throw DiagnosticError(base.span,
                              fmt::format("expected a buffer here, but this is {}", kind_of(buffer)),
                              "write x, x[chunk], x[first ..< end] or x[block(i, n)]");
    const int view = reference->index;
    if (!indexed) return {view, 0, size};
    if (region.kind == Kind::slice) {
        const std::int64_t first = evaluator.integer(region.args[1]),
                           last = evaluator.integer(region.args[2]);
        if (first < 0 || last > size || first >= last)
            throw DiagnosticError(
                region.span, fmt::format("chunks {} ..< {} are not in this group: its chunks are 0 ..< {}",
                                         first, last, size));
        return {view, static_cast<Rank>(first), static_cast<Rank>(last)};
    }
    const ast::Expression& index = region.args[1];
    if (index.kind == Kind::call && index.text == "block") {
        if (index.args.size() != 2)
            throw DiagnosticError(index.span, "block takes 2 arguments: block(chunk, chunks in a block)");
        const std::int64_t chunk = wrap(evaluator.integer(index.args[0]), size),
                           length = evaluator.integer(index.args[1]);
        if (length < 1)
            throw DiagnosticError(index.span, fmt::format("a block of {} chunks", length),
                                  "a block has at least one");
        const std::int64_t first = chunk / length * length;
        return {view, static_cast<Rank>(first),
                static_cast<Rank>(std::min<std::int64_t>(first + length, size))};
    }
    const auto chunk = static_cast<Rank>(wrap(evaluator.integer(index), size));
    return {view, chunk, chunk + 1};
}

std::uint32_t Elaborator::region_index(Arena& arena, ChunkRange chunks) {
    const auto [entry, is_new] =
        arena.regions.emplace(chunks, static_cast<std::uint32_t>(graph_.regions.size()));
    if (is_new)
        graph_.regions.push_back(
            views_[chunks.view].chunks(topology_, arena.group, arena.members[0], chunks.first, chunks.last));
    return entry->second;
}

std::uint32_t Elaborator::origin_index(Span transfer, Span call) {
    const auto key = std::pair(transfer.text().data(), call.text().data());
    const auto [entry, is_new] =
        origin_numbers_.emplace(key, static_cast<std::uint32_t>(graph_.origins.size()));
    if (is_new) graph_.origins.push_back({transfer, call});
    return entry->second;
}

void Elaborator::transfer(const ast::Transfer& transfer, Span span, const Scope& scope, Arena& arena) {
    const Evaluator evaluate = evaluator(scope, &arena);
    const Rank size = arena.group.size;
    const auto source_member = static_cast<Rank>(wrap(evaluate.integer(transfer.source), size));
    const auto destination_member = static_cast<Rank>(wrap(evaluate.integer(transfer.destination), size));
    const Rank source = arena.members[source_member], destination = arena.members[destination_member];
    if (options_.only && source != *options_.only && destination != *options_.only) return;
    if (source == destination)
        throw DiagnosticError(span, fmt::format("rank {} sends to itself", source_member),
                              "exclude it: each ... where a != b");
    const std::uint32_t region = region_index(arena, chunk_range(transfer.region, evaluate, arena));
    graph_.steps.push_back({graph_.phases, region, source, destination, origin_index(span, arena.call),
                            strand_, transfer.combines});
}

// One `each`: all its iterations, or those that can concern the wanted rank.
class EachRunner {
  public:
    EachRunner(Elaborator& elaborator, const ast::Each& each, Scope& scope, Arena& arena)
        : e_(elaborator),
          each_(each),
          scope_(scope),
          arena_(arena),
          mark_(scope.size()),
          evaluator_(elaborator.evaluator(scope, &arena)) {
        for (const ast::Binding& binding : each.bindings) domains_.push_back(domain(binding));
    }

    void run() {
        for (const ast::Statement& statement : each_.body)
            if (!std::holds_alternative<ast::Transfer>(statement.node) &&
                !std::holds_alternative<ast::Let>(statement.node))
                throw DiagnosticError(statement.span, "an each holds transfers and let only",
                                      "put for around the each, or add a variable to it");
        std::vector<std::int64_t> values(domains_.size());
        std::vector<std::vector<std::int64_t>> tuples;
        if (!e_.options_.only || !concerned(tuples)) return all(values, 0, std::nullopt, nullptr);
        std::sort(tuples.begin(), tuples.end());
        tuples.erase(std::unique(tuples.begin(), tuples.end()), tuples.end());
        for (const auto& tuple : tuples) iteration(tuple);
    }

  private:
    Domain domain(const ast::Binding& binding) const {
        const ast::Range& range = binding.range;
        if (range.kind == ast::Range::Kind::items)
            return {binding.name.text, 0, evaluator_.group(range.first).size};
        const std::int64_t first = evaluator_.integer(range.first), last = evaluator_.integer(*range.last);
        // Iterations are simultaneous, so counting down is counting up.
        return range.kind == ast::Range::Kind::up ? Domain{binding.name.text, first, last}
                                                  : Domain{binding.name.text, last, first};
    }

    // The iterations in which an endpoint is the wanted rank. False if that can't be told: then all are
    // walked.
    bool concerned(std::vector<std::vector<std::int64_t>>& tuples) {
        const auto me = std::find(arena_.members.begin(), arena_.members.end(), *e_.options_.only);
        const Rank member = static_cast<Rank>(me - arena_.members.begin());
        if (me == arena_.members.end()) return true;
        for (const ast::Statement& statement : each_.body)
            if (std::holds_alternative<ast::Let>(statement.node)) return false;
        for (const ast::Statement& statement : each_.body) {
            const auto& transfer = std::get<ast::Transfer>(statement.node);
            for (const ast::Expression* endpoint : {&transfer.source, &transfer.destination}) {
                const auto solution = solve(*endpoint, member, arena_.group.size, domains_, evaluator_);
                if (!solution) return false;
                std::vector<std::int64_t> values(domains_.size());
                all(values, 0, *solution, &tuples);
            }
        }
        return true;
    }

    // Walks the product of the domains, one of them narrowed to the solution; runs the iterations, or
    // collects them.
    void all(std::vector<std::int64_t>& values, std::size_t depth, const std::optional<Solution>& solution,
             std::vector<std::vector<std::int64_t>>* collected) {
        if (depth == domains_.size()) return collected ? collected->push_back(values) : iteration(values);
        const auto next = [&](std::int64_t value) {
            e_.count_work(each_.bindings[depth].name.span);
            values[depth] = value;
            all(values, depth + 1, solution, collected);
        };
        if (solution && solution->variable == depth)
            for (const std::int64_t value : solution->values) next(value);
        else
            for (std::int64_t value = domains_[depth].begin; value < domains_[depth].end; ++value)
                next(value);
    }

    void iteration(const std::vector<std::int64_t>& values) {
        for (std::size_t i = 0; i < values.size(); ++i) scope_.add(domains_[i].name, values[i]);
        if (!each_.where || evaluator_.truth(*each_.where))
            for (const ast::Statement& statement : each_.body) {
                if (const auto* binding = std::get_if<ast::Let>(&statement.node))
                    scope_.add(binding->name.text, evaluator_.integer(binding->value));
                else
                    e_.transfer(std::get<ast::Transfer>(statement.node), statement.span, scope_, arena_);
            }
        scope_.shrink(mark_);
    }

    Elaborator& e_;
    const ast::Each& each_;
    Scope& scope_;
    Arena& arena_;
    std::size_t mark_;
    Evaluator evaluator_;
    std::vector<Domain> domains_;
};

void Elaborator::each(const ast::Each& each, Scope& scope, Arena& arena) {
    EachRunner(*this, each, scope, arena).run();
    ++graph_.phases;
}

}  // namespace

bool is_allowed(const ast::Algorithm& algorithm, const Group& group) {
    if (!algorithm.where) return true;
    Scope scope;
    scope.add(algorithm.group.text, group);
    return Evaluator(scope, nullptr).truth(*algorithm.where);
}

StepGraph elaborate(const Runnable& runnable, const Library& library, const Topology& topology,
                    const ElaborateOptions& options) {
    return Elaborator(runnable, library, topology, options).run();
}

}  // namespace hocket::dsl
