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

std::string text_of(const Binding& binding) {
    std::string text = binding.name.text + " in " + text_of(binding.range.first);
    if (binding.range.kind == Range::Kind::up) text += " ..< " + text_of(*binding.range.last);
    if (binding.range.kind == Range::Kind::down) text += " >.. " + text_of(*binding.range.last);
    return text;
}

std::string text_of(const Let& let) {
    std::string parameters;
    for (const Name& name : let.parameters) parameters += (parameters.empty() ? "" : ", ") + name.text;
    if (!parameters.empty()) parameters = "(" + parameters + ")";
    return "let " + let.name.text + parameters + " = " + text_of(let.value);
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
        std::string bindings;
        for (const Binding& binding : each.bindings)
            bindings += (bindings.empty() ? "" : ", ") + text_of(binding);
        for (const Let& let : each.lets) bindings += fmt::format(" {}", text_of(let));
        line(depth, span, "each " + bindings + (each.where ? " where " + text_of(*each.where) : ""));
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
             fmt::format("{} {} over {}{}{}", name_of(compose.collective), text_of(compose.region),
                         text_of(compose.group),
                         compose.from ? " from " + text_of(*compose.from)
                         : compose.to ? " to " + text_of(*compose.to)
                                      : "",
                         compose.algorithm ? " using " + text_of(*compose.algorithm) : ""));
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

std::string print(const File& file) {
    Printer printer;
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
                     fmt::format("algorithm {} {}({}{}{}) over {}{}", a.name.text, name_of(a.collective),
                                 a.buffer.text,
                                 a.root     ? ", " + a.root->text
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
        printer.line(
            0, s.span,
            fmt::format("schedule {} {}({}{}{}){}{}{}{}", s.name.text, name_of(s.collective), s.buffer.text,
                        s.root ? ", " + s.root->text : "", parameters.empty() ? "" : "; " + parameters, given,
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
