#include "dsl/syntax/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

constexpr std::string_view own_names[] = {"levels", "world", "ranks", "auto"};

// A function of a text cannot be called like one that the language has: each call means what it says.
constexpr std::string_view own_functions[] = {
    "pow2",   "log2",    "log2_up",  "log",    "log_up", "min",     "max",   "block", "abs",    "sqrt",
    "select", "float16", "bfloat16", "mstopk", "total",  "largest", "dense", "sum",   "cleared"};

void refuse_own_name(const ast::Name& name, std::span<const std::string_view> all = own_names) {
    for (const std::string_view own : all)
        if (name.text == own)
            throw DiagnosticError(name.span,
                                  fmt::format("'{}' cannot be a name: it is one of the language's own", own),
                                  "choose another name");
}

void refuse_recursion(const ast::Name& function, const ast::Expression& value) {
    if (value.kind == ast::Expression::Kind::call && value.text == function.text)
        throw DiagnosticError(Diagnostic{value.span,
                                         "a function cannot call itself",
                                         {{function.span, "it is made here"}},
                                         "`for` repeats statements, and log2, log and ** count steps"});
    for (const ast::Expression& arg : value.args) refuse_recursion(function, arg);
}

// The names of one definition that are known at one point, as a stack of blocks.
class KnownNames {
  public:
    explicit KnownNames(std::span<const std::string_view> all = own_names) : own_names_(all) {}

    void add(const ast::Name& name) {
        refuse_own_name(name, own_names_);
        for (const ast::Name* other : names_)
            if (other->text == name.text)
                throw DiagnosticError(Diagnostic{name.span,
                                                 fmt::format("there is a '{}' here already", name.text),
                                                 {{other->span, "this one"}},
                                                 "choose another name: none may hide another"});
        names_.push_back(&name);
    }
    void add(const std::optional<ast::Name>& name) {
        if (name) add(*name);
    }
    void add(const std::vector<ast::Parameter>& parameters) {
        for (const ast::Parameter& parameter : parameters) add(parameter.name);
    }

    void block(const std::vector<ast::Statement>& statements) {
        const std::size_t mark = names_.size();
        for (const ast::Statement& statement : statements)
            std::visit([this](const auto& node) { visit(node); }, statement.node);
        names_.resize(mark);
    }
    void block(const ast::Clause& clause) {
        const std::size_t mark = names_.size();
        for (const ast::Binding& binding : clause.bindings) add(binding.name);
        for (const ast::Let& let : clause.lets) visit(let);
        for (const ast::Claim& claim : clause.claims) {
            const std::size_t outside = names_.size();
            if (claim.wanted) add(claim.wanted->member);
            names_.resize(outside);
        }
        names_.resize(mark);
    }
    void block(const std::vector<ast::TopologyStatement>& statements) {
        for (const ast::TopologyStatement& statement : statements) {
            if (const auto* loop = std::get_if<ast::TopologyFor>(&statement.node))
                with({&loop->binding, 1}, loop->body);
            else
                refuse_own_name(std::get<ast::Level>(statement.node).name);
        }
    }

    void visit(const ast::Let& let) {
        if (!let.parameters.empty()) {
            refuse_own_name(let.name, own_functions);
            refuse_recursion(let.name, let.value);
        }
        add(let.name);
        const std::size_t mark = names_.size();
        for (const ast::Name& parameter : let.parameters) add(parameter);
        names_.resize(mark);
    }

  private:
    template <typename Body>
    void with(std::span<const ast::Binding> bindings, const Body& body) {
        const std::size_t mark = names_.size();
        for (const ast::Binding& binding : bindings) add(binding.name);
        block(body);
        names_.resize(mark);
    }

    void visit(const ast::Block& node) { block(node.body); }
    void visit(const ast::For& loop) { with({&loop.binding, 1}, loop.body); }
    void visit(const ast::Parallel& loop) { with({&loop.binding, 1}, loop.body); }
    void visit(const ast::Each& each) {
        const std::size_t mark = names_.size();
        for (const ast::Binding& binding : each.bindings) add(binding.name);
        for (const ast::Let& let : each.lets) visit(let);
        block(each.body);
        names_.resize(mark);
    }
    void visit(const ast::If& choice) {
        block(choice.body);
        block(choice.otherwise);
    }
    void visit(const ast::Compose&) {}
    void visit(const ast::Transfer&) {}
    void visit(const ast::Partition&) {}
    void visit(const ast::State& state) { add(state.name); }
    void visit(const ast::Assign&) {}

    std::span<const std::string_view> own_names_;
    std::vector<const ast::Name*> names_;
};

}  // namespace

std::span<const std::string_view> language_names() {
    return own_names;
}

std::span<const std::string_view> language_functions() {
    return own_functions;
}

bool is_language_function(std::string_view name) {
    return std::ranges::find(own_functions, name) != std::end(own_functions);
}

void check_names(const ast::UpdateDefinition& update) {
    KnownNames known(update_names);
    known.add(update.parameters);
    known.block(update.body);
}

void check_names(const ast::File& file) {
    for (const ast::OperatorDefinition& definition : file.operators) {
        KnownNames known;
        known.add(definition.first);
        known.add(definition.second);
    }
    for (const ast::CollectiveDefinition& collective : file.collectives) {
        KnownNames known;
        known.add(collective.buffer);
        known.add(collective.root);
        known.add(collective.group);
        for (const ast::Let& let : collective.lets) known.visit(let);
        for (const ast::Clause& clause : collective.clauses) known.block(clause);
    }
    for (const ast::UpdateDefinition& update : file.updates) check_names(update);
    for (const ast::Algorithm& algorithm : file.algorithms) {
        KnownNames known;
        known.add(algorithm.buffer);
        known.add(algorithm.second);
        known.add(algorithm.root);
        known.add(algorithm.target);
        known.add(algorithm.parameters);
        known.add(algorithm.group);
        known.block(algorithm.body);
    }
    for (const ast::Schedule& schedule : file.schedules) {
        KnownNames known;
        known.add(schedule.buffer);
        known.add(schedule.root);
        known.add(schedule.parameters);
        for (const ast::Name& given : schedule.given) known.add(given);
        known.block(schedule.body);
    }
    for (const ast::TopologyDefinition& topology : file.topologies) {
        KnownNames known;
        known.add(topology.parameters);
        known.block(topology.body);
    }
}

}  // namespace hocket::dsl
