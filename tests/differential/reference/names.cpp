#include "tests/differential/reference/names.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace hocket::reference {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

class NameCheck {
  public:
    void definition(const Definition& definition);

  private:
    void make(const std::string& name, Position at) {
        if (name == "levels" || name == "world" || name == "ranks" || name == "auto") {
            refuse(at, "'" + name + "' is a name of the language");
        }
        if (contains(known_, name)) refuse(at, "'" + name + "' is known already");
        known_.push_back(name);
    }

    void block(const std::vector<Statement>& statements);
    void statement(const Statement& statement);
    void loops(const Statement& statement);
    void function(const Statement& statement);

    std::vector<std::string> known_;
};

// A product of ranges: none may name a variable of the same each. (One that comes later is not known yet.)
void refuse_dependent(const Expression& expression, const std::vector<std::string>& variables) {
    if (expression.form == Form::name && contains(variables, expression.name)) {
        refuse(expression.at, "the range depends on '" + expression.name + "' of the same each");
    }
    for (const Expression& operand : expression.operands) refuse_dependent(operand, variables);
}

void NameCheck::definition(const Definition& definition) {
    make(definition.buffer, definition.at);
    if (!definition.second.empty()) make(definition.second, definition.at);
    if (!definition.root.empty()) make(definition.root, definition.at);
    if (!definition.is_schedule) make(definition.group, definition.at);
    for (const Parameter& parameter : definition.parameters) make(parameter.name, parameter.at);
    block(definition.body);
}

void NameCheck::block(const std::vector<Statement>& statements) {
    const std::size_t outside = known_.size();
    for (const Statement& inner : statements) statement(inner);
    known_.resize(outside);
}

void NameCheck::statement(const Statement& statement) {
    switch (statement.form) {
        case Statement::Form::transfer:
        case Statement::Form::collective:
            break;
        case Statement::Form::let:
            make(statement.name, statement.at);
            break;
        case Statement::Form::function:
            function(statement);
            break;
        case Statement::Form::choice:
            block(statement.body);
            block(statement.otherwise);
            break;
        case Statement::Form::block:
            block(statement.body);
            break;
        case Statement::Form::each:
        case Statement::Form::repeat:
        case Statement::Form::parallel:
            loops(statement);
            break;
    }
}

// Its variables are names in its value alone.
void NameCheck::function(const Statement& statement) {
    static const std::vector<std::string> of_the_language = {
        "pow2",   "log2",    "log2_up",  "log",    "log_up", "min",     "max",   "block", "abs",    "sqrt",
        "select", "float16", "bfloat16", "mstopk", "total",  "largest", "dense", "sum",   "cleared"};
    if (contains(of_the_language, statement.name)) {
        refuse(statement.at, "'" + statement.name + "' is a function of the language");
    }
    make(statement.name, statement.at);
    const std::size_t outside = known_.size();
    for (const std::string& variable : statement.variables) make(variable, statement.at);
    known_.resize(outside);
}

void NameCheck::loops(const Statement& statement) {
    const std::size_t outside = known_.size();
    std::vector<std::string> variables;
    for (const Loop& loop : statement.loops) {
        refuse_dependent(loop.range.first, variables);
        refuse_dependent(loop.range.second, variables);
        make(loop.name, loop.at);
        variables.push_back(loop.name);
    }
    for (const Statement& let : statement.lets) this->statement(let);
    block(statement.body);
    known_.resize(outside);
}

}  // namespace

void check_names(const Definition& definition) {
    NameCheck().definition(definition);
}

}  // namespace hocket::reference
