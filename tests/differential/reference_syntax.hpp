// What the parser makes of a .sched file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::reference {

struct Position {
    int line = 1;
    int column = 1;
};

// Why a request is refused. Thrown from wherever that is found, and caught by Meaning alone.
class Refusal : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void refuse(Position at, const std::string& why) {
    throw Refusal(std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + why);
}

enum class Form {
    number,
    name,
    member,  // operand.name
    index,   // operand[operand]
    call,    // name(operands)
    tuple,   // (operand, operand, ...)
    negate,
    logical_not,
    logical_and,
    logical_or,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    exclusive_or,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    power,
};

struct Expression {
    Form form = Form::number;
    Position at;
    std::string name;
    std::int64_t number = 0;
    std::vector<Expression> operands;
    int depth = 1;
};

// `first` alone stands for a group or for levels.
struct Range {
    enum class Form { elements, up, down } form = Form::elements;
    Expression first;
    Expression second;
};

struct Loop {
    std::string name;
    Position at;
    Range range;
};

struct Region {
    enum class Form { whole, chunk, slice, block } form = Form::whole;
    std::string buffer;
    Position at;
    Expression first;
    Expression second;
};

struct Statement {
    enum class Form { transfer, each, repeat, parallel, let, block, collective } form = Form::block;
    Position at;

    // transfer: region : from -> to
    Region region;
    Expression from;
    Expression to;
    bool combines = false;

    // each, repeat (`for`), parallel, block
    std::vector<Loop> loops;
    std::optional<Expression> where;
    std::vector<Statement> body;

    // let name = value, or let name = value.part(part of parts)
    std::string name;
    Expression value;
    std::optional<Expression> part;
    std::optional<Expression> parts;

    // collective buffer over group from root using algorithm
    std::string collective;
    std::string buffer;
    Expression group;
    std::optional<Expression> root;
    std::string algorithm;  // "" without `using`
};

struct Parameter {
    std::string name;
    Position at;
    Expression value;
};

struct Definition {
    bool is_schedule = false;
    Position at;
    std::string name;
    std::string collective;
    std::string buffer;
    std::string root;                   // "" where the collective has none
    std::string group;                  // of an algorithm
    std::vector<Parameter> parameters;  // of a schedule
    std::optional<Expression> where;
    std::vector<Statement> body;
};

// A name with arguments: "flat(ring, doubling)".
struct Call {
    std::string name;
    std::vector<Expression> arguments;
};

inline bool is_collective(std::string_view word) {
    return word == "all_reduce" || word == "reduce_scatter" || word == "all_gather" || word == "broadcast";
}

}  // namespace hocket::reference
