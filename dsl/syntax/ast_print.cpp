#include <fmt/format.h>

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl::ast {
namespace {

constexpr const char* spellings[] = {"or", "and", "not", "==", "!=", "<", "<=", ">",   ">=", "|", "xor",
                                     "&",  "<<",  ">>",  "+",  "-",  "*", "/",  "mod", "**", "-"};

// Prints every operation in parentheses, to show the precedence.
std::string text_of(const Expression& e) {
    std::string args;
    switch (e.kind) {
        case Expression::Kind::integer:
            return std::to_string(e.number);
        case Expression::Kind::real:
            return fmt::format("{}", e.real);
        case Expression::Kind::name:
            return e.text;
        case Expression::Kind::operation:
            if (e.args.size() == 1) return fmt::format("({} {})", spelling(e.op), text_of(e.args[0]));
            return fmt::format("({} {} {})", text_of(e.args[0]), spelling(e.op), text_of(e.args[1]));
        case Expression::Kind::index:
            return fmt::format("{}[{}]", text_of(e.args[0]), text_of(e.args[1]));
        case Expression::Kind::slice:
            return fmt::format("{}[{} ..< {}]", text_of(e.args[0]), text_of(e.args[1]), text_of(e.args[2]));
        case Expression::Kind::member:
            return fmt::format("{}.{}", text_of(e.args[0]), e.text);
        case Expression::Kind::part:
            return fmt::format("{}.part({} of {})", text_of(e.args[0]), text_of(e.args[1]),
                               text_of(e.args[2]));
        case Expression::Kind::labelled:
            return fmt::format("{} = {}", e.text, text_of(e.args[0]));
        case Expression::Kind::choice:
            return fmt::format("(if {} then {} else {})", text_of(e.args[0]), text_of(e.args[1]),
                               text_of(e.args[2]));
        case Expression::Kind::call:
        case Expression::Kind::tuple:
            break;
    }
    for (const Expression& arg : e.args) args += (args.empty() ? "" : ", ") + text_of(arg);
    return fmt::format("{}({})", e.kind == Expression::Kind::call ? e.text : "", args);
}

std::string text_of(const Range& range) {
    std::string text = text_of(range.first);
    if (range.kind == Range::Kind::up) text += " ..< " + text_of(*range.last);
    if (range.kind == Range::Kind::down) text += " >.. " + text_of(*range.last);
    return text;
}

std::string text_of(const Binding& binding) {
    return binding.name.text + " in " + text_of(binding.range);
}

std::string text_of(const Let& let) {
    std::string parameters;
    for (const Name& name : let.parameters) parameters += (parameters.empty() ? "" : ", ") + name.text;
    if (!parameters.empty()) parameters = "(" + parameters + ")";
    return "let " + let.name.text + parameters + " = " + text_of(let.value);
}

std::string text_of(const std::vector<Binding>& bindings, const std::vector<Let>& lets,
                    const std::optional<Expression>& where) {
    std::string text;
    for (const Binding& binding : bindings) {
        text += text.empty() ? "each " : ", ";
        text += text_of(binding);
    }
    for (const Let& let : lets) text.append(" ").append(text_of(let));
    if (where) text.append(" where ").append(text_of(*where));
    return text;
}

std::string text_of(const Claim& claim) {
    std::string text = text_of(claim.region) + " : " + text_of(claim.member);
    if (!claim.wanted) return text;
    const Wanted& wanted = *claim.wanted;
    return fmt::format("{} = {}{} : {}{}{}", text, wanted.combines ? "combined " : "", text_of(wanted.region),
                       wanted.member ? wanted.member->text + " in " : "", text_of(wanted.members),
                       wanted.where ? " where " + text_of(*wanted.where) : "");
}

std::string header_of(const CollectiveDefinition& c) {
    return fmt::format("collective {}({}{}) over {}{}", c.name.text, c.buffer.text,
                       c.root ? ", " + c.root->text : "", c.group.text,
                       c.where ? " where " + text_of(*c.where) : "");
}

std::string header_of(const Clause& clause) {
    const std::string each = text_of(clause.bindings, clause.lets, clause.where);
    return (clause.is_after ? "after" : "before") + (each.empty() ? "" : " " + each);
}

std::string_view name_of(Collective collective, const std::optional<Name>& own) {
    return own ? std::string_view(own->text) : dsl::name_of(collective);
}

class Printer {
  public:
    std::string text;

    void line(int depth, Span span, const std::string& what) {
        const Position position = span.file ? position_of(*span.file, span.begin) : Position{};
        text += fmt::format("{:>4}:{:<3} {:{}}{}\n", position.line, position.column, "", depth * 2, what);
    }

    void statements(int depth, const std::vector<Statement>& list) {
        for (const Statement& statement : list)
            std::visit([&](const auto& node) { print(depth, statement.span, node); }, statement.node);
    }

    void print(int depth, Span span, const Block& block) {
        line(depth, span, "block");
        statements(depth + 1, block.body);
    }
    void print(int depth, Span span, const For& loop) {
        line(depth, span, "for " + text_of(loop.binding));
        statements(depth + 1, loop.body);
    }
    void print(int depth, Span span, const Each& each) {
        line(depth, span, text_of(each.bindings, each.lets, each.where));
        statements(depth + 1, each.body);
    }
    void print(int depth, Span span, const Parallel& loop) {
        line(depth, span, "parallel " + text_of(loop.binding));
        statements(depth + 1, loop.body);
    }
    void print(int depth, Span span, const Let& let) { line(depth, span, text_of(let)); }
    void print(int depth, Span span, const If& choice) {
        line(depth, span, "if " + text_of(choice.condition));
        statements(depth + 1, choice.body);
        if (choice.otherwise.empty()) return;
        line(depth, choice.otherwise[0].span, "else");
        statements(depth + 1, choice.otherwise);
    }
    void print(int depth, Span span, const Compose& compose) {
        line(depth, span,
             fmt::format("{} {} over {}{}{}{}{}", name_of(compose.collective, compose.own),
                         text_of(compose.region), text_of(compose.group),
                         compose.from ? " from " + text_of(*compose.from)
                         : compose.to ? " to " + text_of(*compose.to)
                                      : "",
                         compose.algorithm ? " using " + text_of(*compose.algorithm) : "",
                         compose.format ? " as " + text_of(*compose.format) : "",
                         compose.kept ? " keeping " + text_of(*compose.kept) : ""));
    }
    void print(int depth, Span span, const Transfer& transfer) {
        line(depth, span,
             fmt::format("{} : {} {} {}{}", text_of(transfer.region), text_of(transfer.source),
                         transfer.combines ? "+>" : "->",
                         transfer.target ? text_of(*transfer.target) + " : " : "",
                         text_of(transfer.destination)));
    }

    void print(int depth, Span span, const Partition& partition) {
        line(depth, span,
             fmt::format("partition {} over {}", text_of(partition.region), text_of(partition.group)));
    }
    void print(int depth, Span span, const State& state) {
        line(depth, span, fmt::format("state {} like {}", state.name.text, text_of(state.like)));
    }
    void print(int depth, Span span, const Assign& assign) {
        line(depth, span, text_of(assign.target) + " = " + text_of(assign.value));
    }

    void collective(const CollectiveDefinition& c) {
        line(0, c.span, header_of(c));
        for (const Let& let : c.lets) print(1, let.name.span, let);
        for (const Clause& clause : c.clauses) {
            line(1, clause.claims.empty() ? c.span : clause.claims[0].span, header_of(clause));
            for (const Claim& claim : clause.claims) line(2, claim.span, text_of(claim));
        }
    }

    void topology(int depth, const std::vector<TopologyStatement>& list) {
        for (const TopologyStatement& statement : list) {
            if (const auto* loop = std::get_if<TopologyFor>(&statement.node)) {
                line(depth, statement.span, "for " + text_of(loop->binding));
                topology(depth + 1, loop->body);
                continue;
            }
            const Level& level = std::get<Level>(statement.node);
            line(depth, statement.span, fmt::format("level {}[{}]", level.name.text, text_of(level.size)));
            for (const Property& property : level.properties)
                line(depth + 1, property.span, folded_text(property.span));
        }
    }
};

std::string text_of(const std::vector<Parameter>& parameters) {
    std::string text;
    for (const Parameter& parameter : parameters)
        text += (text.empty() ? "" : ", ") + parameter.name.text +
                (parameter.value ? " = " + text_of(*parameter.value) : "");
    return text;
}

}  // namespace

std::string_view spelling(Operator op) {
    return spellings[static_cast<int>(op)];
}

std::string canonical_text(const Expression& expression) {
    return text_of(expression);
}

std::string canonical_text(const CollectiveDefinition& definition) {
    std::string text = header_of(definition);
    for (const Let& let : definition.lets) text += "; " + text_of(let);
    for (const Clause& clause : definition.clauses) {
        text += "; " + header_of(clause);
        for (const Claim& claim : clause.claims) text += ", " + text_of(claim);
    }
    return text;
}

std::string print(const File& file) {
    Printer printer;
    for (const Import& i : file.imports) printer.line(0, i.span, fmt::format("import \"{}\"", i.path.text));
    for (const CollectiveDefinition& c : file.collectives) printer.collective(c);
    for (const OperatorDefinition& o : file.operators)
        printer.line(0, o.span,
                     fmt::format("operator {}({}, {}){}{} = {}", o.name.text, o.first.text, o.second.text,
                                 o.commutative ? " commutative" : "", o.associative ? " associative" : "",
                                 text_of(o.value)));
    for (const UpdateDefinition& u : file.updates) {
        printer.line(0, u.span, fmt::format("update {}({})", u.name.text, text_of(u.parameters)));
        printer.statements(1, u.body);
    }
    for (const Algorithm& a : file.algorithms) {
        printer.line(0, a.span,
                     fmt::format("algorithm {} {}({}{}{}) over {}{}", a.name.text,
                                 name_of(a.collective, a.own), a.buffer.text,
                                 a.second   ? ", " + a.second->text
                                 : a.root   ? ", " + a.root->text
                                 : a.target ? ", " + a.target->text
                                            : "",
                                 a.parameters.empty() ? "" : "; " + text_of(a.parameters), a.group.text,
                                 a.where ? " where " + text_of(*a.where) : ""));
        printer.statements(1, a.body);
    }
    for (const Schedule& s : file.schedules) {
        const std::string parameters = text_of(s.parameters);
        std::string given;
        for (const Name& name : s.given) given += (given.empty() ? " with " : ", ") + name.text;
        printer.line(0, s.span,
                     fmt::format("schedule {} {}({}{}{}){}{}{}{}", s.name.text, name_of(s.collective, s.own),
                                 s.buffer.text, s.root ? ", " + s.root->text : "",
                                 parameters.empty() ? "" : "; " + parameters, given,
                                 s.approximate ? " approximate" : "", s.lossy ? " lossy" : "",
                                 s.where ? " where " + text_of(*s.where) : ""));
        printer.statements(1, s.body);
    }
    for (const TopologyDefinition& t : file.topologies) {
        printer.line(0, t.span, fmt::format("topology {}({})", t.name.text, text_of(t.parameters)));
        printer.topology(1, t.body);
    }
    return printer.text;
}

}  // namespace hocket::dsl::ast
