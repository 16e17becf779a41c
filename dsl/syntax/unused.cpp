#include "dsl/syntax/unused.hpp"

#include <algorithm>

namespace hocket::dsl {
namespace {

// No name hides another, so a name means the one declaration of it that is in scope.
class Finder {
  public:
    std::vector<UnusedName> take() {
        std::ranges::stable_sort(unused_, {}, [](const UnusedName& one) { return one.span.begin; });
        return std::move(unused_);
    }

    void definition(const ast::Algorithm& algorithm) {
        const Scope scope(*this);
        declare(algorithm.parameters);
        use(algorithm.where);
        list(algorithm.body);
    }
    void definition(const ast::Schedule& schedule) {
        const Scope scope(*this);
        declare(schedule.parameters);
        for (const ast::Name& buffer : schedule.given) declare(buffer, "buffer");
        use(schedule.where);
        list(schedule.body);
    }
    void definition(const ast::TopologyDefinition& topology) {
        const Scope scope(*this);
        declare(topology.parameters);
        list(topology.body);
    }
    void definition(const ast::UpdateDefinition& update) {
        const Scope scope(*this);
        declare(update.parameters);
        list(update.body);
    }
    void definition(const ast::CollectiveDefinition& collective) {
        const Scope scope(*this);
        use(collective.where);
        for (const ast::Let& let : collective.lets) visit(let);
        for (const ast::Clause& clause : collective.clauses) this->clause(clause);
    }

  private:
    struct Declared {
        Span span;
        const char* what;
        std::string_view name;
        bool is_used = false;
    };
    // Names declared in it end with it.
    class Scope {
      public:
        explicit Scope(Finder& finder) : finder_(finder), begin_(finder.declared_.size()) {}
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;
        ~Scope() { finder_.leave(begin_); }

      private:
        Finder& finder_;
        std::size_t begin_;
    };

    void declare(const ast::Name& name, const char* what) {
        declared_.push_back({name.span, what, name.text});
    }
    void declare(const std::vector<ast::Parameter>& parameters) {
        for (const ast::Parameter& parameter : parameters) {
            use(parameter.value);
            declare(parameter.name, "parameter");
        }
    }
    void leave(std::size_t begin) {
        for (std::size_t i = begin; i < declared_.size(); ++i)
            if (const Declared& one = declared_[i]; !one.is_used)
                unused_.push_back({one.span, one.what, std::string(one.name)});
        declared_.resize(begin);
    }

    void use(const std::string& name) {
        const auto found = std::find_if(declared_.rbegin(), declared_.rend(),
                                        [&](const Declared& one) { return one.name == name; });
        if (found != declared_.rend()) found->is_used = true;
    }
    void use(const ast::Expression& expression) {
        using Kind = ast::Expression::Kind;
        if (expression.kind == Kind::name || expression.kind == Kind::call) use(expression.text);
        for (const ast::Expression& argument : expression.args) use(argument);
    }
    void use(const std::optional<ast::Expression>& expression) {
        if (expression) use(*expression);
    }
    void use(const ast::Range& range) {
        use(range.first);
        use(range.last);
    }
    template <typename Statement>
    void list(const std::vector<Statement>& statements) {
        const Scope scope(*this);
        for (const Statement& statement : statements)
            std::visit([&](const auto& node) { visit(node); }, statement.node);
    }

    void visit(const ast::Block& block) { list(block.body); }
    template <typename Loop>
    requires requires(const Loop& loop) {
        loop.binding;
        loop.body;
    }
    void visit(const Loop& loop) {
        use(loop.binding.range);
        list(loop.body);
    }
    void visit(const ast::Each& each) {
        const Scope scope(*this);
        for (const ast::Binding& binding : each.bindings) use(binding.range);
        for (const ast::Let& let : each.lets) visit(let);
        use(each.where);
        list(each.body);
    }
    void visit(const ast::Let& let) {
        use(let.value);
        declare(let.name, let.parameters.empty() ? "name" : "function");
    }
    void visit(const ast::If& branch) {
        use(branch.condition);
        list(branch.body);
        list(branch.otherwise);
    }
    void visit(const ast::Compose& compose) {
        use(compose.region);
        use(compose.group);
        for (const auto* part :
             {&compose.from, &compose.to, &compose.algorithm, &compose.format, &compose.kept})
            use(*part);
    }
    void visit(const ast::Transfer& transfer) {
        use(transfer.region);
        use(transfer.source);
        use(transfer.destination);
        use(transfer.target);
    }
    void visit(const ast::Partition& partition) {
        use(partition.region);
        use(partition.group);
    }
    void visit(const ast::State& state) {
        use(state.like);
        declare(state.name, "state");
    }
    // A place that is written is not used by that, but what says where it is.
    void visit(const ast::Assign& assign) {
        const ast::Expression* target = &assign.target;
        while (!target->args.empty()) {
            for (std::size_t i = 1; i < target->args.size(); ++i) use(target->args[i]);
            target = &target->args[0];
        }
        use(assign.value);
    }
    void visit(const ast::Level& level) { use(level.size); }

    void clause(const ast::Clause& clause) {
        const Scope scope(*this);
        for (const ast::Binding& binding : clause.bindings) use(binding.range);
        for (const ast::Let& let : clause.lets) visit(let);
        use(clause.where);
        for (const ast::Claim& claim : clause.claims) {
            use(claim.region);
            use(claim.member);
            if (!claim.wanted) continue;
            use(claim.wanted->region);
            use(claim.wanted->members);
            use(claim.wanted->where);
        }
    }

    std::vector<Declared> declared_;
    std::vector<UnusedName> unused_;
};

}  // namespace

std::vector<UnusedName> unused_names(const ast::File& file) {
    Finder finder;
    const auto all = [&](const auto& definitions) {
        for (const auto& definition : definitions) finder.definition(definition);
    };
    all(file.collectives);
    all(file.updates);
    all(file.algorithms);
    all(file.schedules);
    all(file.topologies);
    return finder.take();
}

}  // namespace hocket::dsl
