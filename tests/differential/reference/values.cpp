#include "tests/differential/reference/values.hpp"

#include <algorithm>

namespace hocket::reference {
namespace {

Value levels_value(std::vector<int> levels) {
    return {Value::Form::levels, 0, std::move(levels)};
}

Value level_value(int level, const Topology& topology) {
    return Value::of_group(topology.level(level).size, {level});
}

Value member_of(const Expression& expression, const Scope& scope, const Topology& topology) {
    const Value value = value_of(expression.operands[0], scope, topology);
    const std::string& name = expression.name;
    if (value.form == Value::Form::group && name == "size") return Value::of_number(value.number);
    if (value.form == Value::Form::levels) {
        if (name == "count") return Value::of_number(static_cast<std::int64_t>(value.levels.size()));
        if (name == "reversed") return levels_value({value.levels.rbegin(), value.levels.rend()});
    }
    refuse(expression.at, "there is no ." + name + " here");
}

Value element_of(const Expression& expression, const Scope& scope, const Topology& topology) {
    const Value value = value_of(expression.operands[0], scope, topology);
    if (value.form != Value::Form::levels) refuse(expression.at, "only levels have an index");
    const std::int64_t i = number_of(expression.operands[1], scope, topology);
    if (i < 0 || i >= static_cast<std::int64_t>(value.levels.size())) {
        refuse(expression.at, "there is no such level");
    }
    return level_value(value.levels[i], topology);
}

// Members are numbered by the levels' order, not by the order in which levels are named.
Value group_of_levels(const Expression& expression, const Scope& scope, const Topology& topology) {
    std::vector<int> levels;
    for (const Expression& operand : expression.operands) {
        const Value value = value_of(operand, scope, topology);
        if (value.form != Value::Form::group) refuse(operand.at, "this is not a level");
        levels.insert(levels.end(), value.levels.begin(), value.levels.end());
    }
    std::sort(levels.begin(), levels.end());
    if (std::adjacent_find(levels.begin(), levels.end()) != levels.end()) {
        refuse(expression.at, "a level is named twice");
    }
    return Value::of_group(topology.group_size(levels), levels);
}

// The value of a function, with what was known where it was made, and its variables.
Value called(const Expression& call, const Scope& scope, const Topology& topology) {
    const Value function = *scope.find(call.name);
    const Statement& definition = *function.function;
    if (definition.variables.size() != call.operands.size()) {
        refuse(call.at, "'" + call.name + "' has another number of variables");
    }
    Scope inside;
    inside.topology = scope.topology;
    inside.own.assign(scope.own.begin(), scope.own.begin() + function.number);
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        inside.own.push_back({definition.variables[i], value_of(call.operands[i], scope, topology)});
    }
    return value_of(definition.value, inside, topology);
}

}  // namespace

bool is_made(const Expression& call, const Scope& scope) {
    const Value* value = scope.find(call.name);
    return value && value->form == Value::Form::function;
}

const Value* Scope::find(const std::string& name) const {
    const auto named = [&](const auto& entry) { return entry.first == name; };
    const auto mine = std::find_if(own.rbegin(), own.rend(), named);
    if (mine != own.rend()) return &mine->second;
    if (!topology) return nullptr;
    const auto given = std::find_if(topology->begin(), topology->end(), named);
    return given != topology->end() ? &given->second : nullptr;
}

Names topology_names(const Topology& topology) {
    Names names;
    names.push_back({"levels", levels_value(topology.all_levels())});
    names.push_back({"world", Value::of_group(topology.ranks(), topology.all_levels())});
    names.push_back({"ranks", Value::of_number(topology.ranks())});
    for (const int level : topology.all_levels()) {
        names.push_back({topology.level(level).name, level_value(level, topology)});
    }
    return names;
}

Value value_of(const Expression& expression, const Scope& scope, const Topology& topology) {
    switch (expression.form) {
        case Form::name:
            if (const Value* value = scope.find(expression.name)) return *value;
            refuse(expression.at, "'" + expression.name + "' is not known");
        case Form::member:
            return member_of(expression, scope, topology);
        case Form::index:
            return element_of(expression, scope, topology);
        case Form::tuple:
            return group_of_levels(expression, scope, topology);
        case Form::choice: {
            const bool holds = number_of(expression.operands[0], scope, topology) != 0;
            return value_of(expression.operands[holds ? 1 : 2], scope, topology);
        }
        case Form::call:
            if (is_made(expression, scope)) return called(expression, scope, topology);
            [[fallthrough]];
        default:
            return Value::of_number(number_of(expression, scope, topology));
    }
}

std::shared_ptr<Buffer> buffer_named(const std::string& name, Position at, const Scope& scope) {
    const Value* value = scope.find(name);
    if (!value) refuse(at, "'" + name + "' is not known");
    if (value->form != Value::Form::buffer) refuse(at, "'" + name + "' is not a buffer");
    return value->buffer;
}

RangeValues::RangeValues(const Range& range, const Scope& scope, const Topology& topology) {
    if (range.form == Range::Form::elements) {
        take_elements(value_of(range.first, scope, topology), topology, range.first.at);
        return;
    }
    const std::int64_t first = number_of(range.first, scope, topology);
    const std::int64_t second = number_of(range.second, scope, topology);
    const bool is_up = range.form == Range::Form::up;
    const std::int64_t low = is_up ? first : second;
    const std::int64_t high = is_up ? second : first;
    if (high <= low) return;
    if (__builtin_sub_overflow(high, low, &size_)) refuse(range.first.at, "too large: the range");
    step_ = is_up ? 1 : -1;
    first_ = is_up ? low : high - 1;
}

void RangeValues::take_elements(const Value& value, const Topology& topology, Position at) {
    if (value.form == Value::Form::group) {
        size_ = value.number;
        return;
    }
    if (value.form != Value::Form::levels) refuse(at, "this is not a range");
    for (const int level : value.levels) levels_.push_back(level_value(level, topology));
    size_ = static_cast<std::int64_t>(levels_.size());
}

Value RangeValues::operator[](std::int64_t i) const {
    return levels_.empty() ? Value::of_number(first_ + step_ * i) : levels_[i];
}

}  // namespace hocket::reference
