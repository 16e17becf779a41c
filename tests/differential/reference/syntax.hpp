// The syntax tree of a .sched file.
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
    choice,  // if operand then operand else operand
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
    bit_or,
    exclusive_or,
    bit_and,
    shift_left,
    shift_right,
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

// A name with arguments: "flat(ring, gather = doubling)". Those at the end may have labels.
struct Call {
    std::string name;
    std::vector<Expression> arguments;
    std::vector<std::string> labels;  // "" for an argument by position
};

struct Statement {
    enum class Form {
        transfer,
        each,
        repeat,
        parallel,
        let,
        function,
        choice,
        block,
        collective
    } form = Form::block;
    Position at;

    // transfer: region : from -> to, or region : from -> target : to
    Region region;
    std::optional<Region> target;
    Expression from;
    Expression to;
    bool combines = false;

    // each, repeat (`for`), parallel, block; choice (`if`): where, body, or otherwise
    std::vector<Loop> loops;
    std::vector<Statement> lets;  // of an each, before `where`
    std::optional<Expression> where;
    std::vector<Statement> body;
    std::vector<Statement> otherwise;

    // let name = value, or let name = value.part(part of parts), or let name(variables) = value
    std::string name;
    std::vector<std::string> variables;
    Expression value;
    std::optional<Expression> part;
    std::optional<Expression> parts;

    // collective buffer over group from root using algorithm; or to root
    std::string collective;
    std::string buffer;
    Expression group;
    std::optional<Expression> root;
    std::optional<Call> algorithm;
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
    std::string second;  // "" where there is no second buffer
    std::string root;    // "" where the collective has none
    std::string group;   // of an algorithm
    std::vector<Parameter> parameters;
    std::optional<Expression> where;
    std::vector<Statement> body;
};

// A collective, by its name in the language.
struct Collective {
    enum class Holds { nothing, own_piece, all };
    std::string_view name;
    // The parts of x that ranks hold, at the start and at the end.
    Holds root_starts, others_start, root_ends, others_end;
    bool reduces;
    bool exchanges = false;

    bool comes_from_root() const { return root_starts != others_start; }
    bool goes_to_root() const { return root_ends != others_end; }
    bool has_root() const { return comes_from_root() || goes_to_root(); }
    bool starts_divided() const { return root_starts == Holds::own_piece; }
    bool ends_divided() const { return root_ends == Holds::own_piece; }
    // Returns whether x is divided by rank, so that its count has as many elements for each rank.
    bool is_divided() const { return starts_divided() || ends_divided() || exchanges; }
};

// Null if the word is no collective's name.
inline const Collective* find_collective(std::string_view word) {
    using enum Collective::Holds;
    static constexpr Collective all_of_them[] = {
        {"all_reduce", all, all, all, all, true},
        {"reduce_scatter", all, all, own_piece, own_piece, true},
        {"all_gather", own_piece, own_piece, all, all, false},
        {"broadcast", all, nothing, all, all, false},
        {"reduce", all, all, all, nothing, true},
        {"gather", own_piece, own_piece, all, nothing, false},
        {"scatter", all, nothing, own_piece, own_piece, false},
        {"all_to_all", all, all, all, all, false, true},
    };
    for (const Collective& collective : all_of_them) {
        if (collective.name == word) return &collective;
    }
    return nullptr;
}

// The collective of a name that the parser has accepted.
inline const Collective& collective_of(std::string_view name) {
    const Collective* found = find_collective(name);
    if (!found) throw Refusal("there is no such collective");
    return *found;
}

}  // namespace hocket::reference
