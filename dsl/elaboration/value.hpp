// The language's values while a schedule is elaborated, and the names that stand for them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
// A name that stands for itself: an algorithm that is passed to a schedule, perhaps with arguments. These are
// numbers.
struct Symbol {
    std::shared_ptr<const ast::Expression> call;
};
using GroupList = std::vector<Group>;
// A parameter that gets its value at each start.
struct StartParameter {
    std::uint32_t index = 0;
};

// `let f(i) = i + 1`. Its expression sees the names that were known before it, and no later ones.
struct Function {
    const ast::Let* definition = nullptr;
    std::size_t known = 0;    // the number of those names
    std::size_t calls = 0;    // of other functions, by it and by those, which one call of it can make
    std::uint32_t depth = 0;  // of the expressions below each other in such a call
};

using Value =
    std::variant<std::int64_t, Group, GroupList, ViewRef, PartOf, Symbol, double, StartParameter, Function>;

const char* kind_of(const Value& value);  // returns "a number", "a group", ...

// The names in scope, innermost last. They point into the syntax tree, which outlives the scope.
class Scope {
  public:
    Scope() = default;
    // For a function's parameters: the names outside of them are the first ones of the scope in which the
    // function was made, which `outer` is, or is inside of. It must outlive this.
    Scope(const Scope& outer, std::size_t known)
        : outer_(outer.outer_ ? outer.outer_ : &outer), known_(known) {}

    void reserve(std::size_t names) { entries_.reserve(names); }
    // The name must not be empty.
    void add(std::string_view name, Value value) { entries_.push_back({name, std::move(value)}); }
    const Value* find(std::string_view name) const {
        if (const Value* value = find(name, entries_.size())) return value;
        return outer_ ? outer_->find(name, known_) : nullptr;
    }
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (std::size_t i = 0; outer_ && i < known_; ++i) all.emplace_back(outer_->entries_[i].name);
        for (const Entry& entry : entries_) all.emplace_back(entry.name);
        return all;
    }
    // Gives the i-th name of this scope another value.
    void set(std::size_t i, std::int64_t value) { entries_[i].value = value; }
    std::optional<std::string> name_of_group() const {
        for (const Entry& entry : entries_)
            if (std::holds_alternative<Group>(entry.value)) return std::string(entry.name);
        return outer_ ? outer_->name_of_group() : std::nullopt;
    }
    // Returns "s = 2, r = 0": the last names that stand for numbers, at most eight.
    std::string numbers_text() const;
    std::size_t size() const { return entries_.size(); }
    void shrink(std::size_t size) { entries_.resize(size, {{}, Value()}); }

  private:
    struct Entry {
        std::string_view name;
        Value value;
    };
    const Value* find(std::string_view name, std::size_t known) const {
        // Most names differ in their lengths or first letters, and many have one letter.
        for (std::size_t i = known; i-- > 0;) {
            const std::string_view its = entries_[i].name;
            if (its.size() == name.size() && its[0] == name[0] && (its.size() == 1 || its == name))
                return &entries_[i].value;
        }
        return nullptr;
    }

    std::vector<Entry> entries_;
    const Scope* outer_ = nullptr;
    std::size_t known_ = 0;  // of the outer scope's names
};

// Makes the function that `let f(...) = ...` defines at the end of this scope. Throws DiagnosticError if its
// calls of others make too much work.
Function function_of(const ast::Let& let, const Scope& scope);

// Evaluates expressions. Throws DiagnosticError: unknown names, wrong kinds, overflow, division by zero.
class Evaluator {
  public:
    // Without a topology (inside algorithms), `levels`, `world` and the levels' names are unknown.
    Evaluator(const Scope& scope, const Topology* topology) : scope_(scope), topology_(topology) {}

    Value evaluate(const ast::Expression& expression) const;
    std::int64_t integer(const ast::Expression& expression) const;
    bool truth(const ast::Expression& expression) const { return integer(expression) != 0; }
    Group group(const ast::Expression& expression) const;
    // The side of `if c then a else b` that c chooses; of such a side again what it chooses.
    const ast::Expression& chosen(const ast::Expression& choice) const;

  private:
    Value name(const ast::Expression& expression) const;
    Value index(const ast::Expression& expression) const;
    Value member(const ast::Expression& expression) const;
    Value part(const ast::Expression& expression) const;
    Value tuple(const ast::Expression& expression) const;
    std::int64_t operation(const ast::Expression& expression) const;
    Value call(const ast::Expression& expression) const;
    Value apply(const Function& function, const ast::Expression& call) const;
    std::int64_t own_function(const ast::Expression& expression) const;
    std::string instead_of_name(std::string_view name) const;

    const Scope& scope_;
    const Topology* topology_;
};

// Returns the mathematical modulo, in [0, size). size must be positive.
constexpr std::int64_t wrap(std::int64_t value, std::int64_t size) {
    const std::int64_t rest = value % size;
    return rest < 0 ? rest + size : rest;
}

}  // namespace hocket::dsl
