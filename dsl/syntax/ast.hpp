// The syntax tree of a .sched file. Every node has its place in the source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/source.hpp"

namespace hocket::dsl::ast {

enum class Operator : std::uint8_t {
    logical_or,
    logical_and,
    logical_not,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    bit_or,
    bit_xor,
    bit_and,
    shift_left,
    shift_right,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    power,
    negate,
};

struct Expression {
    enum class Kind : std::uint8_t {
        integer,    // number
        real,       // real: a number with a point or an exponent
        name,       // text
        operation,  // op, args (one or two)
        call,       // text(args)
        index,      // args[0][args[1]]
        slice,      // args[0][args[1] ..< args[2]]
        member,     // args[0].text
        part,       // args[0].part(args[1] of args[2])
        tuple,      // (args[0], args[1], ...): a product of groups
        labelled,   // text = args[0]: an argument, in a call
        choice,     // if args[0] then args[1] else args[2]
    };
    Kind kind = Kind::integer;
    Operator op = Operator::add;
    std::uint16_t depth = 1;  // of the tree below; the parser limits it
    Span span;
    std::int64_t number = 0;
    double real = 0;
    std::string text;
    std::vector<Expression> args;
};

struct Name {
    Span span;
    std::string text;
};

// `first ..< last` counts up; `first >.. last` counts down from first - 1 to last. Without `last`, `first` is
// a group or a list of groups.
struct Range {
    enum class Kind : std::uint8_t { up, down, items };
    Kind kind = Kind::items;
    Span span;
    Expression first;
    std::optional<Expression> last;
};

struct Binding {
    Name name;
    Range range;
};

struct Statement;

// `{ ... }` by itself
struct Block {
    std::vector<Statement> body;
};
struct For {
    Binding binding;
    std::vector<Statement> body;
};
struct Let {
    Name name;
    std::vector<Name> parameters;  // of a function; empty for a value
    Expression value;
};
struct Each {
    std::vector<Binding> bindings;
    std::vector<Let> lets;  // `where` sees them, too
    std::optional<Expression> where;
    std::vector<Statement> body;
};
struct Parallel {
    Binding binding;
    std::vector<Statement> body;
};
// `if c BODY else BODY`
struct If {
    Expression condition;
    std::vector<Statement> body;
    std::vector<Statement> otherwise;
};
// `reduce_scatter x over l using ring`, or `all_gather x over l as int8 keeping e`
struct Compose {
    Collective collective = Collective::all_reduce;
    std::optional<Name> own;  // the name of a collective that a file defines
    Expression region;
    Expression group;
    // The root, if the collective has one: data come from it, or go to it.
    std::optional<Expression> from, to;
    std::optional<Expression> algorithm;
    std::optional<Expression> format;  // `as int8`: in which the data travel
    std::optional<Expression> kept;    // `keeping e`: the state that keeps what the format loses
};
// `x[c] : a +> b`, or `x[c] : a -> y[d] : b`
struct Transfer {
    Expression region;
    Expression source, destination;
    std::optional<Expression> target;  // the destination's place, if it differs from the source's
    bool combines = false;
};

// `partition w over world`: each rank has all of w, and works only on its own part from here on
struct Partition {
    Expression region;
    Expression group;
};
// `state e like x`
struct State {
    Name name;
    Expression like;
};
// `e = e + x`
struct Assign {
    Expression target;
    Expression value;
};

struct Statement {
    Span span;
    std::variant<Block, For, Each, Parallel, Let, If, Compose, Transfer, Partition, State, Assign> node;
};

struct Parameter {
    Name name;
    // The default. A schedule's parameter without one gets its value at each start.
    std::optional<Expression> value;
};

struct Algorithm {
    Span span;  // of the header
    Name name;
    Collective collective = Collective::all_reduce;
    std::optional<Name> own;  // the name of a collective that a file defines
    Name buffer;
    std::optional<Name>
        second;  // of such a collective, until its definition says which of the next two it is
    std::optional<Name> root;
    std::optional<Name> target;         // of an exchange: the buffer that receives the result
    std::vector<Parameter> parameters;  // each has a default
    Name group;
    std::optional<Expression> where;
    std::vector<Statement> body;
};

struct Schedule {
    Span span;  // of the header
    Name name;
    Collective collective = Collective::all_reduce;
    std::optional<Name> own;  // the name of a collective that a file defines
    Name buffer;
    std::optional<Name> root;
    std::vector<Parameter> parameters;
    std::vector<Name> given;   // further buffers; every rank has all of them, with the same content
    bool approximate = false;  // the result may lack what selections and narrower formats leave out
    bool lossy = false;        // the content of states may be lost, too
    std::optional<Expression> where;
    std::vector<Statement> body;
};

// What a place holds at the end of a collective: `x[c] : q`, or `combined x[c] : q in g where q != r`.
struct Wanted {
    bool combines = false;
    Expression region;
    std::optional<Name> member;  // stands for each of the members, in the condition
    Range members;               // or one member's number, as Range::first
    std::optional<Expression> where;
};
// `x[r] : r`, or `x[r] : r = x[r] : q`
struct Claim {
    Span span;
    Expression region, member;
    std::optional<Wanted> wanted;
};
// `before each r in g  x : r`, or `after each r in g  x : r = combined x : g`
struct Clause {
    Span span;
    bool is_after = false;
    std::vector<Binding> bindings;
    std::vector<Let> lets;
    std::optional<Expression> where;
    std::vector<Claim> claims;
};
// `collective scan(x) over g { ... }`: the promise of a collective
struct CollectiveDefinition {
    Span span;  // of the header
    Name name;
    Collective collective = undefined_collective;
    Name buffer;
    std::optional<Name> root;
    Name group;
    std::optional<Expression> where;
    std::vector<Let> lets;
    std::vector<Clause> clauses;
};

struct Property {
    Span span;
    enum class Kind : std::uint8_t { medium, latency, bandwidth, shared_by, nic } kind = Kind::medium;
    std::string text;    // medium, shared_by, nic
    double value = 0.0;  // seconds; bytes per second
};

struct Level {
    Name name;
    Expression size;
    std::vector<Property> properties;
};

struct TopologyStatement;
struct TopologyFor {
    Binding binding;
    std::vector<TopologyStatement> body;
};
struct TopologyStatement {
    Span span;
    std::variant<Level, TopologyFor> node;
};

struct TopologyDefinition {
    Span span;  // of the header
    Name name;
    std::vector<Parameter> parameters;
    std::vector<TopologyStatement> body;
};

// `operator absmax(a, b) commutative associative = select(abs(a) >= abs(b), a, b)`
struct OperatorDefinition {
    Span span;  // of the header
    Name name;
    Name first, second;        // the names of the two operands, in order
    bool commutative = false;  // the operands may change places
    bool associative = false;  // the operands may be grouped in any way
    Expression value;
};

// `update sgd(rate) { w = w - rate * g / workers }`
struct UpdateDefinition {
    Span span;  // of the header
    Name name;
    std::vector<Parameter> parameters;  // one without a default must be given
    std::vector<Statement> body;        // State, Let and Assign
};

// import "nets/rings.sched"
struct Import {
    Span span;
    Name path;  // its span has the quotes, its text has not
};

struct File {
    std::vector<Import> imports;
    std::vector<CollectiveDefinition> collectives;
    std::vector<OperatorDefinition> operators;
    std::vector<UpdateDefinition> updates;
    std::vector<Algorithm> algorithms;
    std::vector<Schedule> schedules;
    std::vector<TopologyDefinition> topologies;
};

// Returns the tree as indented text, one node per line.
std::string print(const File& file);
// Returns the definition in one form, whatever its spaces and comments are.
std::string canonical_text(const CollectiveDefinition& definition);
std::string canonical_text(const Expression& expression);

std::string_view spelling(Operator op);

}  // namespace hocket::dsl::ast
