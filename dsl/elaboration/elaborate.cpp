#include "dsl/elaboration/elaborate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <typeinfo>
#include <utility>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/computations.hpp"
#include "dsl/elaboration/promises.hpp"
#include "dsl/elaboration/transfers.hpp"

namespace hocket::dsl {
namespace {

// The statements that scattered and gathered buffers last, for errors.
struct Moves {
    struct Move {
        Span span;
        bool scatters;
        std::string name;  // of the buffer
    };
    std::map<ViewId, Move> last;

    // Returns a note about the buffer's last move, or of another buffer that is scattered.
    std::vector<Note> notes(ViewId view) const {
        if (const auto own = last.find(view); own != last.end())
            return {{own->second.span,
                     own->second.scatters ? "scattered here already" : "gathered here already"}};
        for (const auto& [other, move] : last)
            if (move.scatters) return {{move.span, fmt::format("{} is scattered, by this", move.name)}};
        return {};
    }
};

class Elaborator {
  public:
    Elaborator(const Runnable& runnable, const Library& library, const Topology& topology,
               const ElaborateOptions& options)
        : runnable_(runnable),
          library_(library),
          topology_(topology),
          options_(options),
          transfers_(graph_, topology, views_, options.only, options.deadline, options.symmetry,
                     options.watched),
          computations_(graph_, topology, views_, transfers_, options.only) {}

    StepGraph run();

  private:
    void check_header(const ast::Schedule& schedule) const;
    void statements(const std::vector<ast::Statement>& list, Scope& scope, Arena* arena);
    void statement(const ast::Statement& statement, Scope& scope, Arena* arena);
    void for_loop(const ast::For& loop, Scope& scope, Arena* arena);
    void parallel(const ast::Parallel& loop, Span span, Scope& scope, Arena* arena);
    void compose(const ast::Compose& compose, Span span, Scope& scope);
    void compose_packed(const ast::Compose& compose, ViewId view, const Group& group, Span span,
                        const Scope& scope);
    void run_algorithm(const Runnable& runnable, const Group& group, ViewId view, Rank root,
                       const std::vector<Rank>& anchors, Span call);
    void own_transfers(const ast::Statement& statement, Scope& scope);
    bool compute(const ast::Statement& statement, Scope& scope, const Arena* arena);
    Runnable algorithm_for(const ast::Compose& compose, const Group& group, const Scope& scope, Span span);
    std::vector<Rank> anchors(const Group& group) const;

    const Runnable& runnable_;
    const Library& library_;
    const Topology& topology_;
    const ElaborateOptions& options_;
    StepGraph graph_;
    Views views_;
    Transfers transfers_;
    Computations computations_;
    Moves moves_;
    std::uint32_t blocks_ = 0;
};

View initial_view(const Topology& topology, Collective collective, Rank root) {
    const Contract contract = contract_of(collective);
    View view = contract.is_by_rank() ? View::by_rank(topology, contract.gathers()) : View();
    if (contract.spreads()) view.concentrate(topology, world_group(topology), root);
    return view;
}

void check_root(Collective collective, bool has_root, Span header) {
    if (has_root == contract_of(collective).has_root()) return;
    const std::string_view name = name_of(collective);
    if (has_root)
        throw DiagnosticError(header, fmt::format("{} has no root", name),
                              fmt::format("its header must name the buffer alone: {}(x)", name));
    throw DiagnosticError(header, fmt::format("{} needs a root", name),
                          fmt::format("its header must name the buffer and the root: {}(x, root)", name));
}

// Checks the composition's buffer, and its `from` or `to`.
void check_composition(const ast::Compose& compose, View::Division division, const std::string& over,
                       Span span, const std::vector<Note>& notes) {
    const Contract contract = contract_of(compose.collective);
    const std::string& name = compose.region.text;
    using Division = View::Division;
    if (contract.own && (contract.is_by_rank() || contract.has_root()))
        throw DiagnosticError(span,
                              fmt::format("a schedule cannot compose {}, whose contract {}", contract.name,
                                          contract.has_root() ? "names a root" : "divides the buffer"),
                              "only collectives of files without a root and without chunks can be composed: "
                              "write its transfers here, or an algorithm over all ranks");
    if (contract.gathers() && division != Division::scattered)
        throw DiagnosticError(Diagnostic{
            span, fmt::format("{} is not scattered over {}: there is nothing to gather", name, over), notes,
            notes.empty() ? fmt::format("reduce_scatter {} over the same levels first", name)
                          : "gather what is scattered, once, and over the same levels"});
    if (!contract.gathers() && (division == Division::scattered || division == Division::mixed))
        throw DiagnosticError(Diagnostic{
            span, fmt::format("{} is scattered over {}: its ranks hold different parts of it", name, over),
            notes,
            fmt::format(
                "all_gather {} over the same levels first, or take other levels, over which it is not "
                "scattered",
                name)});
    const auto check_word = [&](const std::optional<ast::Expression>& given, bool is_wanted,
                                const char* word) {
        if (given.has_value() == is_wanted) return;
        if (given)
            throw DiagnosticError(
                given->span, fmt::format("{} has no root that its data come {}", contract.name, word),
                contract.has_root()
                    ? fmt::format("write: {} {} over {} {} root", contract.name, name,
                                  compose.group.span.text(), contract.spreads() ? "from" : "to")
                    : "leave it out");
        throw DiagnosticError(span, fmt::format("{} needs its root", contract.name),
                              fmt::format("write: {} {} over {} {} root", contract.name, name,
                                          compose.group.span.text(), word));
    };
    check_word(compose.from, contract.spreads(), "from");
    check_word(compose.to, contract.concentrates(), "to");
}

// Adds the schedule's statement to errors that its algorithm's file has.
template <typename Call>
void with_statement(Span statement, Call call) {
    try {
        call();
    } catch (const DiagnosticError& error) {
        if (typeid(error) != typeid(DiagnosticError) || error.diagnostic().span.file == statement.file) throw;
        Diagnostic diagnostic = error.diagnostic();
        diagnostic.notes.push_back({statement, "in the algorithm that this runs"});
        throw DiagnosticError(std::move(diagnostic));
    }
}

void Elaborator::check_header(const ast::Schedule& schedule) const {
    check_root(schedule.collective, schedule.root.has_value(), schedule.span);
    if (!schedule.where || Evaluator(runnable_.arguments, &topology_).truth(*schedule.where)) return;
    throw ConditionError(
        Diagnostic{schedule.span,
                   fmt::format("{} cannot run on topology {}", runnable_.name, topology_.name),
                   {{schedule.where->span, "because of this condition"}},
                   schedule.parameters.empty() ? "choose another schedule or topology"
                                               : "choose another schedule or topology, or other arguments"});
}

StepGraph Elaborator::run() {
    graph_.collective = runnable_.collective();
    graph_.ranks = topology_.ranks();
    graph_.root = options_.root;
    const Contract contract = contract_of(graph_.collective);
    const bool has_owners = contract.is_by_rank();
    if (has_owners && options_.only.are_all()) graph_.owned = owned_pieces(topology_);
    if (is_own(graph_.collective) && options_.only.are_all())
        graph_.promise = promise_of(library_.definition_of(graph_.collective), graph_.ranks, graph_.root,
                                    options_.deadline);

    const ViewId buffer = views_.add(initial_view(topology_, graph_.collective, graph_.root));
    if (options_.symmetry) options_.symmetry->pieces(views_[buffer]);
    if (runnable_.schedule) {
        graph_.header = runnable_.schedule->span;
        check_header(*runnable_.schedule);
        Scope scope = runnable_.arguments;
        scope.add(runnable_.schedule->buffer.text, ViewRef{buffer});
        if (runnable_.schedule->root) scope.add(runnable_.schedule->root->text, std::int64_t{options_.root});
        graph_.approximate = runnable_.schedule->approximate;
        graph_.lossy = runnable_.schedule->lossy;
        for (const ast::Parameter& parameter : runnable_.schedule->parameters)
            if (!parameter.value) graph_.parameters.push_back(parameter.name.text);
        for (const ast::Name& given : runnable_.schedule->given) computations_.given(given, scope);
        statements(runnable_.schedule->body, scope, nullptr);
        const std::string scattered = views_[buffer].scattered_over(topology_);
        if (!contract.scatters() && !scattered.empty())
            graph_.hint = fmt::format("{} is still scattered over {} at the end: {} it",
                                      runnable_.schedule->buffer.text, scattered,
                                      contract.concentrates() ? "gather" : "all_gather");
        else if (const auto holders = views_[buffer].holders(topology_); !holders.empty())
            graph_.hint =
                contract.concentrates()
                    ? fmt::format("the result is with {} at the end, and belongs to the root: write `to {}`",
                                  holders, runnable_.schedule->root ? runnable_.schedule->root->text : "root")
                    : fmt::format("the result is with {} alone at the end: broadcast {} from there", holders,
                                  runnable_.schedule->buffer.text);
    } else {
        graph_.header = runnable_.algorithm->span;
        const Group world = world_group(topology_);
        views_[buffer].divide(topology_, world, graph_.header);
        if (world.size > 1) run_algorithm(runnable_, world, buffer, options_.root, {0}, Span());
    }
    return std::move(graph_);
}

void Elaborator::statements(const std::vector<ast::Statement>& list, Scope& scope, Arena* arena) {
    const std::size_t mark = scope.size(), views = views_.size();
    for (const ast::Statement& item : list) statement(item, scope, arena);
    scope.shrink(mark);
    views_.shrink(views);
}

void Elaborator::statement(const ast::Statement& statement, Scope& scope, Arena* arena) {
    transfers_.count_work(statement.span);
    const auto& node = statement.node;
    if (compute(statement, scope, arena)) return;
    if (const auto* block = std::get_if<ast::Block>(&node)) return statements(block->body, scope, arena);
    if (const auto* choice = std::get_if<ast::If>(&node)) {
        if (options_.symmetry) options_.symmetry->branch(choice->condition.span);
        const bool holds = transfers_.evaluator(scope, arena).truth(choice->condition);
        return statements(holds ? choice->body : choice->otherwise, scope, arena);
    }
    if (const auto* loop = std::get_if<ast::For>(&node)) return for_loop(*loop, scope, arena);
    if (const auto* loop = std::get_if<ast::Parallel>(&node))
        return parallel(*loop, statement.span, scope, arena);
    if (const auto* binding = std::get_if<ast::Let>(&node)) return transfers_.let(*binding, scope, arena);
    if (const auto* composition = std::get_if<ast::Compose>(&node)) {
        if (arena)
            throw DiagnosticError(statement.span, "an algorithm consists of transfers",
                                  "compose collectives in a schedule");
        return compose(*composition, statement.span, scope);
    }
    if (!arena) return own_transfers(statement, scope);
    if (const auto* loop = std::get_if<ast::Each>(&node)) return transfers_.each(*loop, scope, *arena);
    transfers_.transfer(std::get<ast::Transfer>(node), statement.span, scope, *arena);
}

// Returns false if the statement is not a computation.
bool Elaborator::compute(const ast::Statement& statement, Scope& scope, const Arena* arena) {
    const auto& node = statement.node;
    const auto* let = std::get_if<ast::Let>(&node);
    const bool can_compute = let || std::holds_alternative<ast::Assign>(node) ||
                             std::holds_alternative<ast::State>(node) ||
                             std::holds_alternative<ast::Partition>(node);
    if (!can_compute) return false;
    if (let) return !arena && computations_.let(*let, statement.span, scope);
    if (arena)
        throw DiagnosticError(
            statement.span, "an algorithm consists of transfers",
            "buffers are computed in a schedule, outside of its transfers; a name keeps its "
            "value: calculate it anew, of the loop's variable, as in: let d = 2**k");
    if (const auto* assign = std::get_if<ast::Assign>(&node))
        computations_.assign(*assign, statement.span, scope);
    else if (const auto* state = std::get_if<ast::State>(&node))
        computations_.state(*state, statement.span, scope);
    else
        computations_.partition(std::get<ast::Partition>(node), statement.span, scope);
    return true;
}

// A schedule's own transfers are between all ranks, and use buffers divided over all levels.
void Elaborator::own_transfers(const ast::Statement& statement, Scope& scope) {
    Arena world{world_group(topology_), {}, Span(), false};
    world.members = members_of(topology_, world.group, 0);
    std::vector<View> undivided = views_.save();
    views_.divide(topology_, world.group, statement.span);
    this->statement(statement, scope, &world);
    views_.restore(std::move(undivided));
}

void Elaborator::for_loop(const ast::For& loop, Scope& scope, Arena* arena) {
    std::vector<Value> values = values_of(loop.binding.range, transfers_.evaluator(scope, arena));
    if (values.empty() && graph_.empty_ranges.empty()) graph_.empty_ranges.push_back(loop.binding.range.span);
    for (Value& value : values) {
        transfers_.count_work(loop.binding.name.span);
        const std::size_t mark = scope.size();
        scope.add(loop.binding.name.text, std::move(value));
        statements(loop.body, scope, arena);
        scope.shrink(mark);
    }
}

void Elaborator::parallel(const ast::Parallel& loop, Span span, Scope& scope, Arena* arena) {
    const std::uint32_t parent = transfers_.strand, block = ++blocks_;
    for (Value& value : values_of(loop.binding.range, transfers_.evaluator(scope, arena))) {
        graph_.strands.push_back({parent, block, span});
        transfers_.strand = static_cast<std::uint32_t>(graph_.strands.size() - 1);
        const std::size_t mark = scope.size();
        scope.add(loop.binding.name.text, std::move(value));
        statements(loop.body, scope, arena);
        scope.shrink(mark);
    }
    transfers_.strand = parent;
}

// ---- Composition -------------------------------------------------------------------------------

namespace {

// Returns "'ring' is an algorithm for all_gather": what has the name, if not an algorithm of the collective.
std::string what_it_is(const Library& library, const std::string& name) {
    std::string collectives;
    bool is_schedule = false;
    for (const Collective collective : all_collectives) {
        if (library.find_algorithm(name, collective))
            collectives += fmt::format("{}{}", collectives.empty() ? "" : ", ", name_of(collective));
        is_schedule |= library.find_schedule(name, collective) != nullptr;
    }
    if (!collectives.empty()) return fmt::format("'{}' is an algorithm for {}; ", name, collectives);
    return is_schedule ? fmt::format("'{}' is a schedule, and `using` takes algorithms; ", name) : "";
}

DiagnosticError no_algorithm(const Library& library, Span span, const std::string& name,
                             Collective collective) {
    std::vector<std::string> known;
    for (const ast::Algorithm* other : library.algorithms_at(span, collective))
        known.push_back(other->name.text);
    const std::string other = what_it_is(library, name);
    return DiagnosticError(span,
                           fmt::format("there is no algorithm '{}' for {}{}", name, name_of(collective),
                                       other.empty() ? did_you_mean(name, known) : ""),
                           other + (known.empty() ? library.where_looked()
                                                  : fmt::format("there are: {}", fmt::join(known, ", "))));
}

}  // namespace

Runnable Elaborator::algorithm_for(const ast::Compose& compose, const Group& group, const Scope& scope,
                                   Span span) {
    if (!compose.algorithm)
        return runnable_of(options_.choose(compose.collective, group, span, graph_.choices));
    const ast::Expression& named = *compose.algorithm;
    using Kind = ast::Expression::Kind;
    if (named.kind != Kind::name && named.kind != Kind::call)
        throw DiagnosticError(named.span, "expected an algorithm's name",
                              "choose it before, among parameters of the schedule: with s all_reduce(x; a = "
                              "ring, b = direct), let c = if i == 0 then a else b, and then `using c`");
    ast::Expression call = named;
    if (const Value* value = scope.find(named.text)) {
        const auto* symbol = std::get_if<Symbol>(value);
        if (!symbol)
            throw DiagnosticError(named.span, fmt::format("expected an algorithm, but '{}' is {}", named.text,
                                                          kind_of(*value)));
        if (named.kind == Kind::call)
            throw DiagnosticError(named.span, fmt::format("'{}' has its arguments already", named.text),
                                  "give them where the algorithm is named");
        call = *symbol->call;
    }
    const ast::Algorithm* algorithm = library_.find_algorithm(call.text, compose.collective, call.span);
    if (!algorithm) throw no_algorithm(library_, named.span, call.text, compose.collective);
    return runnable_of(*algorithm, with_values(call, transfers_.evaluator(scope, nullptr)));
}

// Returns the first rank of each group that has wanted ranks.
std::vector<Rank> Elaborator::anchors(const Group& group) const {
    std::vector<Rank> result;
    for (Rank rank : options_.only.some()) {
        for (const int level : group.levels)
            rank -= topology_.coordinate(rank, level) * topology_.stride(level);
        result.push_back(rank);
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    if (!options_.only.are_all()) return result;
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        bool first = true;
        for (const int level : group.levels) first &= topology_.coordinate(rank, level) == 0;
        if (first) result.push_back(rank);
    }
    return result;
}

void Elaborator::compose(const ast::Compose& compose, Span span, Scope& scope) {
    const Evaluator evaluate = transfers_.evaluator(scope, nullptr);
    const Value region = evaluate.evaluate(compose.region);
    const auto* reference = std::get_if<ViewRef>(&region);
    if (!reference)
        throw DiagnosticError(compose.region.span,
                              fmt::format("expected a buffer, but this is {}", kind_of(region)),
                              "give a part its name first: let y = x.part(0 of 2)");
    computations_.check_composition(reference->view, compose.collective, span);
    View& view = views_[reference->view];
    const Group group = evaluate.group(compose.group);
    const std::string over = name_of(topology_, group);
    check_composition(compose, view.division(group), over, span, moves_.notes(reference->view));
    const Contract contract = contract_of(compose.collective);
    const auto& named_root = compose.from ? compose.from : compose.to;
    const Rank root = named_root ? static_cast<Rank>(wrap(evaluate.integer(*named_root), graph_.ranks)) : 0;
    if (options_.symmetry && !view.is_everywhere())
        throw AsymmetryError(span, "only some of them hold the data here");
    if (contract.scatters() || contract.gathers())
        moves_.last.insert_or_assign(reference->view,
                                     Moves::Move{span, contract.scatters(), compose.region.text});
    if (compose.format) return compose_packed(compose, reference->view, group, span, scope);
    view.divide(topology_, group, span);
    // Only groups that hold the data take part.
    std::vector<Rank> taking_part;
    for (const Rank rank : anchors(group))
        if (view.is_in(topology_, group, rank)) taking_part.push_back(rank);
    if (group.size > 1) {
        const Runnable algorithm = algorithm_for(compose, group, scope, span);
        with_statement(span,
                       [&] { run_algorithm(algorithm, group, reference->view, root, taking_part, span); });
        if (WatchedStep* watched = options_.watched;
            watched && !watched->values.empty() && !watched->is_in_algorithm) {
            watched->is_in_algorithm = true;
            watched->outer = scope.numbers_text();
        }
    }
    if (contract.scatters())
        view.scatter(group);
    else
        view.gather(group);
    if (contract.concentrates())
        view.concentrate(topology_, group, root);
    else
        view.spread(group);
}

// The data travel in another format, in which a value is rounded once: algorithms that combine on the way
// would round at each step.
void Elaborator::compose_packed(const ast::Compose& compose, ViewId view, const Group& group, Span span,
                                const Scope& scope) {
    const bool scatters = compose.collective == Collective::reduce_scatter;
    if (!scatters && compose.collective != Collective::all_gather &&
        compose.collective != Collective::all_reduce)
        throw DiagnosticError(compose.format->span,
                              fmt::format("{} cannot travel in another format", name_of(compose.collective)),
                              "reduce_scatter, all_gather and all_reduce can");
    if (scatters && compose.algorithm)
        throw DiagnosticError(
            compose.algorithm->span,
            "a reduce_scatter in another format has no algorithm: each rank sends each other "
            "one its part, because sums on the way would be rounded again",
            "leave `using` out");
    views_[view].divide(topology_, group, span);
    if (group.size == 1) {
        computations_.check_packing(compose, view, scope);
    } else {
        const ViewId packed = computations_.pack(compose, view, group, span, scope);
        if (scatters) {
            for (const Rank rank : anchors(group))
                computations_.exchange(packed, members_of(topology_, group, rank), span);
            transfers_.end_phase();
        } else {
            // An all_reduce brings the pieces together, and each rank adds them up.
            ast::Compose gather = compose;
            gather.collective = Collective::all_gather;
            run_algorithm(algorithm_for(gather, group, scope, span), group, packed, 0, anchors(group), span);
        }
        computations_.unpack(compose.collective, view, packed, group, span);
    }
    if (scatters)
        views_[view].scatter(group);
    else
        views_[view].gather(group);
}

void Elaborator::run_algorithm(const Runnable& runnable, const Group& group, ViewId view, Rank root,
                               const std::vector<Rank>& anchors, Span call) {
    const ast::Algorithm& algorithm = *runnable.algorithm;
    if (!is_allowed(runnable, group))
        throw ConditionError(Diagnostic{
            call.file ? call : algorithm.span,
            fmt::format("{} cannot run on a group of {} ranks (over {}): `{}` does not hold", runnable.name,
                        group.size, name_of(topology_, group), folded_text(algorithm.where->span)),
            {{algorithm.where->span, "because of this condition"}},
            "choose another algorithm, or leave `using` out to let the compiler choose"});
    check_root(algorithm.collective, algorithm.root.has_value(), algorithm.span);
    if (options_.on_use) options_.on_use(runnable, group.size, call);
    // The result of an exchange is the same view of the next buffer.
    const std::size_t mark = views_.size();
    std::optional<ViewId> target;
    if (algorithm.target) {
        View next = views_[view];
        next.advance();
        graph_.buffers = std::max(graph_.buffers, next.buffer() + 1);
        target = views_.add(std::move(next));
    }
    const std::uint32_t execution = transfers_.execution;
    for (const Rank anchor : anchors) {
        transfers_.execution = execution;
        Arena arena{group, members_of(topology_, group, anchor), call, true, algorithm.group.text + ".size"};
        Scope scope = runnable.arguments;
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
        if (target) scope.add(algorithm.target->text, ViewRef{*target});
        statements(algorithm.body, scope, &arena);
    }
    views_.shrink(mark);
    if (target) views_[view].advance();
}

}  // namespace

Runnable runnable_of(const ast::Algorithm& algorithm, const ast::Expression& call) {
    Runnable runnable;
    runnable.algorithm = &algorithm;
    runnable.name = bind_parameters(algorithm.name.text, algorithm.parameters, call, runnable.arguments);
    return runnable;
}

Runnable runnable_of(const ast::Schedule& schedule, const ast::Expression& call, std::int64_t tiles) {
    Runnable runnable;
    runnable.schedule = &schedule;
    Tiles all{tiles};
    runnable.name = bind_parameters(schedule.name.text, schedule.parameters, call, runnable.arguments, &all);
    if (all.is_used) runnable.automatic = call;
    return runnable;
}

Runnable in_tiles(const Runnable& automatic, std::int64_t tiles) {
    return runnable_of(*automatic.schedule, *automatic.automatic, tiles);
}

std::vector<Region> owned_pieces(const Topology& topology) {
    const View own = View::by_rank(topology, true);
    std::vector<Region> pieces;
    for (Rank rank = 0; rank < topology.ranks(); ++rank) pieces.push_back(own.held(topology, rank));
    return pieces;
}

bool is_allowed(const Runnable& runnable, const Group& group) {
    const ast::Algorithm& algorithm = *runnable.algorithm;
    if (!algorithm.where) return true;
    Scope scope = runnable.arguments;
    scope.add(algorithm.group.text, group);
    return Evaluator(scope, nullptr).truth(*algorithm.where);
}

StepGraph elaborate(const Runnable& runnable, const Library& library, const Topology& topology,
                    const ElaborateOptions& options) {
    return Elaborator(runnable, library, topology, options).run();
}

}  // namespace hocket::dsl
