// The values of expressions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/reference/buffers.hpp"
#include "tests/differential/reference/syntax.hpp"

namespace hocket::reference {

struct Value {
    enum class Form { number, buffer, group, levels, algorithm, function } form = Form::number;
    std::int64_t number = 0;           // or the size of a group
    std::vector<int> levels{};         // of a group (in order, innermost first), or the list
    std::shared_ptr<Buffer> buffer{};  // `let z = x` makes two names for one buffer
    std::string algorithm{};
    // Of a function: its definition. `number` is how many names were known before it.
    const Statement* function = nullptr;

    static Value of_number(std::int64_t number) { return {Form::number, number}; }
    static Value of_buffer(std::shared_ptr<Buffer> buffer) {
        return {Form::buffer, 0, {}, std::move(buffer)};
    }
    static Value of_group(std::int64_t size, std::vector<int> levels) {
        return {Form::group, size, std::move(levels)};
    }
    static Value of_algorithm(std::string name) { return {Form::algorithm, 0, {}, {}, std::move(name)}; }
    static Value of_function(const Statement& definition, std::size_t known) {
        return {Form::function, static_cast<std::int64_t>(known), {}, {}, {}, &definition};
    }
};

using Names = std::vector<std::pair<std::string, Value>>;

// The names that are known at a place of the text.
struct Scope {
    Names own;                        // the later ones are further inside
    const Names* topology = nullptr;  // `levels`, `world`, `ranks` and the levels' names; not in an algorithm

    const Value* find(const std::string& name) const;
};

// The names that a schedule can use without defining them.
Names topology_names(const Topology& topology);

Value value_of(const Expression& expression, const Scope& scope, const Topology& topology);
// Whether a call means a function that the text has made.
bool is_made(const Expression& call, const Scope& scope);
std::int64_t number_of(const Expression& expression, const Scope& scope, const Topology& topology);
std::shared_ptr<Buffer> buffer_named(const std::string& name, Position at, const Scope& scope);

// The members of a group, some levels, or numbers up or down.
class RangeValues {
  public:
    RangeValues(const Range& range, const Scope& scope, const Topology& topology);

    std::int64_t size() const { return size_; }
    Value operator[](std::int64_t i) const;

  private:
    void take_elements(const Value& value, const Topology& topology, Position at);

    std::int64_t first_ = 0;
    std::int64_t step_ = 1;
    std::int64_t size_ = 0;
    std::vector<Value> levels_;  // instead of numbers
};

// Floored: never negative.
inline std::int64_t wrapped(std::int64_t number, std::int64_t size) {
    const std::int64_t remainder = number % size;
    return remainder < 0 ? remainder + size : remainder;
}

}  // namespace hocket::reference
