// The language's values while a schedule is elaborated, and the names that stand for them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "dsl/graph/topology.hpp"
#include "dsl/graph/views.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// A buffer under one of its names. The elaborator knows which part of it each rank holds.
struct ViewRef {
    ViewId view = 0;
};
// `x.part(1 of 2)`, before `let` names it.
struct PartOf {
    ViewId view = 0;
    std::int64_t index = 0, parts = 1;
};
// A name that stands for itself: an algorithm passed to a schedule.
struct Symbol {
    std::string name;
};
using GroupList = std::vector<Group>;
// A parameter that gets its value at each start.
struct StartParameter {
    std::uint32_t index = 0;
};

using Value = std::variant<std::int64_t, Group, GroupList, ViewRef, PartOf, Symbol, double, StartParameter>;

const char* kind_of(const Value& value);  // returns "a number", "a group", ...

// The names in scope, innermost last. They point into the syntax tree, which outlives the scope.
class Scope {
  public:
    void add(std::string_view name, Value value) { entries_.push_back({name, std::move(value)}); }
    const Value* find(std::string_view name) const {
        for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
            if (entry->name == name) return &entry->value;
        return nullptr;
    }
    std::string names() const {  // returns "x, g, s"
        std::string text;
        for (const Entry& entry : entries_) text += (text.empty() ? "" : ", ") + std::string(entry.name);
        return text;
    }
    std::size_t size() const { return entries_.size(); }
    void shrink(std::size_t size) { entries_.resize(size, {{}, Value()}); }

  private:
    struct Entry {
        std::string_view name;
        Value value;
    };
    std::vector<Entry> entries_;
};

// Evaluates expressions. Throws DiagnosticError: unknown names, wrong kinds, overflow, division by zero.
class Evaluator {
  public:
    // Without a topology (inside algorithms), `levels`, `world` and the levels' names are unknown.
    Evaluator(const Scope& scope, const Topology* topology) : scope_(scope), topology_(topology) {}

    Value evaluate(const ast::Expression& expression) const;
    std::int64_t integer(const ast::Expression& expression) const;
    bool truth(const ast::Expression& expression) const { return integer(expression) != 0; }
    Group group(const ast::Expression& expression) const;

  private:
    Value name(const ast::Expression& expression) const;
    Value index(const ast::Expression& expression) const;
    Value member(const ast::Expression& expression) const;
    Value part(const ast::Expression& expression) const;
    Value tuple(const ast::Expression& expression) const;
    std::int64_t operation(const ast::Expression& expression) const;
    std::int64_t call(const ast::Expression& expression) const;

    const Scope& scope_;
    const Topology* topology_;
};

// Returns the mathematical modulo, in [0, size). size must be positive.
constexpr std::int64_t wrap(std::int64_t value, std::int64_t size) {
    const std::int64_t rest = value % size;
    return rest < 0 ? rest + size : rest;
}

}  // namespace hocket::dsl
