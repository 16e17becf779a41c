// Writes plans as statements of the language, in one of many ways.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/differential/expressions.hpp"
#include "tests/differential/generator.hpp"
#include "tests/differential/plan.hpp"
#include "tests/differential/program.hpp"

namespace hocket::differential {

// The names that the text around the statements provides.
struct Surroundings {
    int size;                // of the group
    std::vector<int> sizes;  // of all groups that the text is for: families only, if these differ
    std::string group;       // its name: "g", "world"
    std::string size_name;   // "g.size", "ranks"
    // In a schedule, a part that is made inside an each is one of the divided buffer: where that is another
    // part than one that is made outside, none is made inside.
    bool part_is_same_in_each = true;
    std::string root = {};  // the root's name, where the collective has one
    // Each rank has as many elements, for every count: chunks can move to other places.
    bool chunks_are_alike = false;
};

// The rotation of all members that a plan names: by a named offset.
struct Turn {
    std::string name;
    bool by_xor;
    bool chunks;  // these, too
};

class Writer {
  public:
    Writer(Random& random, const GeneratorOptions& options, std::set<std::string>& features,
           Surroundings surroundings);

    // A name that is not known here, known from now on.
    std::string new_name();
    // From now on, a plan's member n is written as turn + n, or turn xor n; with turn.chunks, its chunks too.
    void turn_by(Turn turn) { turn_ = std::move(turn); }
    // The value of the name that was made last.
    void set_last(std::int64_t value) { names_.back().value = value; }
    void know(const std::string& name) { names_.push_back({name}); }
    void know(const std::string& name, std::int64_t value) { names_.push_back({name, value}); }
    void know(const std::string& name, const View* view) { names_.push_back({name, {}, view}); }
    std::vector<Number> numbers() const;
    // A let of a function. One of its calls is a name of its value from now on.
    std::string function();

    void write(const Plan& plan, Statements& out);
    // A loop over all parts of which `view` is that of the round; or all rounds, written out.
    void rounds(const View* view, const std::function<void(Statements&)>& fill, Statements& out);
    // Names that were made since then stay taken, but are not used any more.
    std::size_t mark() const { return names_.size(); }
    void hide_since(std::size_t mark);
    // In between no name is made twice, even after blocks have ended: lists of statements that are written
    // one after the other can then be interleaved.
    void begin_interleaved() { ++interleaved_; }
    void end_interleaved() {
        if (--interleaved_ == 0) avoided_.clear();
    }
    std::string known_name(const View* view);
    // Sees to it that the view has a name: a `let` for it goes to `out` where it has none yet.
    void name(const View* view, Statements& out);
    Expression number(std::int64_t value) { return expressions_.number(value, numbers()); }
    Expressions& expressions() { return expressions_; }
    const Surroundings& surroundings() const { return surroundings_; }

    // Adds a block's statement: one round of a for or a parallel, or a bare block. Names that `fill` makes
    // end with it.
    template <typename Fill>
    void block(Statements& out, bool may_be_parallel, const Fill& fill);
    template <typename Fill>
    Statements inside(const Fill& fill);
    // "a ..< b" or "b >.. a".
    std::string range(std::int64_t first, std::int64_t last, bool down = false);
    void maybe_let(Statements& out);
    // "if C", or "if C { ... } else": what follows is what runs.
    std::string choice();

  private:
    struct Known {
        std::string name;
        std::optional<std::int64_t> value = {};
        const View* view = nullptr;
    };

    void sequence(const std::vector<const Plan*>& plans, Statements& out);
    void independent(const Plan& plan, Statements& out);
    void symmetric(const Plan& plan, Statements& out);
    void phase(const std::vector<Move>& moves, Statements& out);
    void each_of_block(const std::vector<Move>& moves, Statements& out);
    void each_of_list(const std::vector<Move>& moves, Statements& out);
    void each_of_members(const std::vector<Move>& moves, Statements& out);
    bool loop_of_list(const std::vector<const Plan*>& plans, std::size_t& at, Statements& out);

    std::string transfer(const Move& move);
    std::string region(const View* view, int first, int length);
    std::string target(const Move& move);
    void name_both(const Move& move, Statements& out);
    std::string listed(const std::vector<Move>& moves, const Expression& index);
    Expression member(int member) { return place(member, turn_.has_value()); }
    Expression chunk(int chunk) { return place(chunk, turn_ && turn_->chunks); }
    Expression place(int number, bool is_turned);
    Expression turned(const Expression& offset, bool is_turned) const;
    bool is_known(const std::string& name) const;
    void family(const Plan& plan, Statements& out);

    Random& random_;
    const GeneratorOptions& options_;
    std::set<std::string>& features_;
    Surroundings surroundings_;
    Expressions expressions_;
    std::vector<Known> names_;
    std::vector<std::pair<const View*, std::string>> rounds_;  // the index of views of rounds
    std::optional<Turn> turn_;
    int interleaved_ = 0;
    std::set<std::string> avoided_;
};

// The phases and loops of a plan in the order in which they can be done, independent ones interleaved.
std::vector<const Plan*> flattened(const Plan& plan, Random& random);

template <typename Fill>
Statements Writer::inside(const Fill& fill) {
    Statements body;
    const std::size_t known = names_.size();
    fill(body);
    names_.resize(known);
    return body;
}

template <typename Fill>
void Writer::block(Statements& out, bool may_be_parallel, const Fill& fill) {
    const std::size_t known = names_.size();
    std::string head;
    if (random_.chance(20)) {
        head = choice();
    } else if (!options_.bare_blocks || random_.chance(40)) {
        const std::int64_t value = random_.between(-1, 3);
        const std::string bounds = range(value, value + 1, random_.chance(40));
        const bool is_parallel = may_be_parallel && random_.chance(30);
        features_.insert(is_parallel ? "parallel" : "for");
        const std::string name = new_name();
        names_.back().value = value;
        head = (is_parallel ? "parallel " : "for ") + name + " in " + bounds;
    } else {
        features_.insert("bare block");
    }
    Statements body = inside(fill);
    names_.resize(known);
    out.push_back({head, true, std::move(body)});
}

}  // namespace hocket::differential
