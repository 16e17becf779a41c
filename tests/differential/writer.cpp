#include "tests/differential/writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/differential/families.hpp"

namespace hocket::differential {

Writer::Writer(Random& random, const GeneratorOptions& options, std::set<std::string>& features,
               Surroundings surroundings)
    : random_(random),
      options_(options),
      features_(features),
      surroundings_(std::move(surroundings)),
      expressions_(random, features) {
    for (const std::string& name : {surroundings_.group, surroundings_.root})
        if (!name.empty()) know(name);
}

// ---- Names --------------------------------------------------------------------------------------

bool Writer::is_known(const std::string& name) const {
    return std::any_of(names_.begin(), names_.end(), [&](const Known& known) { return known.name == name; });
}

std::string Writer::new_name() {
    static const std::vector<std::string> letters{"a", "b", "c", "d", "e", "f", "h", "i", "j", "k", "m",
                                                  "n", "p", "q", "r", "s", "t", "u", "v", "w", "y", "z"};
    std::string name = random_.pick(letters);
    for (int number = 1; is_known(name) || avoided_.count(name); ++number)
        name = random_.pick(letters) + std::to_string(number);
    know(name);
    if (interleaved_ > 0) avoided_.insert(name);
    return name;
}

std::vector<Number> Writer::numbers() const {
    std::vector<Number> numbers;
    if (surroundings_.sizes.size() == 1) numbers.push_back({surroundings_.size_name, surroundings_.size});
    for (const Known& known : names_)
        if (known.value) numbers.push_back({known.name, *known.value});
    return numbers;
}

std::string Writer::range(std::int64_t first, std::int64_t last, bool down) {
    const bool is_group = surroundings_.sizes.size() == 1 && first == 0 && last == surroundings_.size;
    if (!down && is_group && random_.chance(50)) {
        features_.insert("group as a range");
        return surroundings_.group;
    }
    const Expression from = number(first), to = number(last);
    if (down) features_.insert("range down");
    return down ? to.text + " >.. " + from.text : from.text + " ..< " + to.text;
}

std::string Writer::function() {
    features_.insert("let of a function");
    const std::int64_t argument = random_.between(-2, 5), offset = random_.between(0, 4);
    const std::string parameter = new_name();
    const std::string rest = number(offset).text;
    Expression value;
    std::int64_t result = 0;
    switch (random_.below(3)) {
        case 0:
            value = binary({parameter}, "+", {"(" + rest + ")"});
            result = argument + offset;
            break;
        case 1:
            value = binary({"(" + rest + ")"}, "-", binary({"2"}, "*", {parameter}));
            result = offset - 2 * argument;
            break;
        default:
            value = {fmt::format("if {} < {} then {} else {}", parameter, argument, rest, parameter),
                     Binds::choice};
            result = argument;
    }
    const std::string given = number(argument).text;
    const std::string name = new_name();
    std::string second, second_given;
    if (random_.chance(30)) {
        features_.insert("function of two");
        second = ", " + new_name();
        second_given = ", " + number(random_.between(-1, 3)).text;
        value = binary({"(" + value.text + ")"}, "*", {second.substr(2) + " ** 0"});
    }
    names_.push_back({fmt::format("{}({}{})", name, given, second_given), result});
    return fmt::format("let {}({}{}) = {}", name, parameter, second, value.text);
}

std::string Writer::choice() {
    features_.insert("if");
    if (random_.chance(50)) return "if " + expressions_.truth(true, numbers()).text;
    features_.insert("else");
    const std::string condition = expressions_.truth(false, numbers()).text;
    return fmt::format("if {} {{ let {} = 1 / 0 }} else", condition, new_name());
}

void Writer::maybe_let(Statements& out) {
    if (!random_.chance(7)) return;
    if (random_.chance(30)) {
        const std::string let = function();
        out.push_back({let});
        return;
    }
    const std::int64_t value = random_.between(-2, surroundings_.size + 1);
    const std::string text = number(value).text;
    const std::string name = new_name();
    names_.back().value = value;
    features_.insert("let of a number");
    out.push_back({"let " + name + " = " + text});
}

std::string Writer::known_name(const View* view) {
    std::vector<std::string> names;
    for (const Known& known : names_)
        if (known.view == view) names.push_back(known.name);
    return names.empty() ? "" : random_.pick(names);
}

void Writer::hide_since(std::size_t mark) {
    for (std::size_t i = mark; i < names_.size(); ++i) names_[i] = {names_[i].name};
}

void Writer::name(const View* view, Statements& out) {
    if (const std::string known = known_name(view); !known.empty()) {
        if (!random_.chance(3)) return;
        features_.insert("let of a buffer");
        out.push_back({"let " + new_name() + " = " + known});
        names_.back().view = view;
        return;
    }
    name(view->parent, out);
    const std::string parent = known_name(view->parent);
    std::string index;
    for (const auto& [of, text] : rounds_)
        if (of == view || of == view->beside) index = text;
    if (index.empty()) index = number(view->index).text;
    const std::string parts = number(view->parts).text;
    features_.insert(view->parent->parent ? "part of a part" : "part");
    out.push_back({fmt::format("let {} = {}.part({} of {})", new_name(), parent, index, parts)});
    names_.back().view = view;
}

// ---- Members, chunks, transfers -----------------------------------------------------------------

Expression Writer::turned(const Expression& offset, bool is_turned) const {
    if (!is_turned) return offset;
    return binary({turn_->name}, turn_->by_xor ? "xor" : "+", offset);
}

Expression Writer::place(int number, bool is_turned) {
    const int size = surroundings_.size;
    if (!is_turned) return expressions_.wrapping(number, size, numbers());
    if (number == 0 && random_.chance(80)) return {turn_->name};
    if (turn_->by_xor) {
        features_.insert("xor of a member");
        return turned(this->number(number), true);
    }
    if (random_.chance(40))
        return binary({turn_->name}, "-", expressions_.wrapping(size - number, size, numbers()));
    return turned(expressions_.wrapping(number, size, numbers()), true);
}

void Writer::name_both(const Move& move, Statements& out) {
    name(move.view, out);
    if (move.to_view) name(move.to_view, out);
}

std::string Writer::region(const View* view, int first, int length) {
    const std::string name = known_name(view);
    const int size = surroundings_.size, last = first + length;
    if (length == size && random_.chance(70)) return name;
    const bool turns = turn_ && turn_->chunks;
    if (length == 1 && (turns || random_.chance(85))) {
        features_.insert("chunk");
        return fmt::format("{}[{}]", name, chunk(first).text);
    }
    // A block of `unit`, the last one perhaps shorter.
    std::vector<int> units;
    for (int unit = length; unit <= size + 2; ++unit)
        if (first % unit == 0 && std::min(first + unit, size) == last) units.push_back(unit);
    if (!units.empty() && random_.chance(40)) {
        const int unit = random_.pick(units);
        features_.insert(unit == length ? "block" : "short block");
        const auto inside = static_cast<int>(random_.between(first, last - 1));
        const std::string chunk = expressions_.wrapping(inside, size, numbers()).text;
        return fmt::format("{}[block({}, {})]", name, chunk, number(unit).text);
    }
    features_.insert("slice");
    const std::string begin = number(first).text;
    return fmt::format("{}[{} ..< {}]", name, begin, number(last).text);
}

// "y[2] : ", or nothing. A place can be named once more, too.
std::string Writer::target(const Move& move) {
    const int length = move.last - move.first;
    if (move.to_view) {
        features_.insert(move.to_view == move.view ? "to another place" : "to another buffer");
        return region(move.to_view, move.to_first, length) + " : ";
    }
    if (!random_.chance(4)) return "";
    features_.insert("to the same place, by name");
    return region(move.view, move.first, length) + " : ";
}

std::string Writer::transfer(const Move& move) {
    const std::string where = region(move.view, move.first, move.last - move.first);
    const std::string source = member(move.source).text;
    const std::string to = target(move);
    if (move.source == move.destination) features_.insert("within a member");
    features_.insert(move.combines ? "+>" : "->");
    return fmt::format("{} : {} {} {}{}", where, source, move.combines ? "+>" : "->", to,
                       member(move.destination).text);
}

// ---- Phases -------------------------------------------------------------------------------------

// each i in 0 ..< 1 { transfers }
void Writer::each_of_block(const std::vector<Move>& moves, Statements& out) {
    const bool lets_inside =
        random_.chance(40) && options_.part_lets_in_each && surroundings_.part_is_same_in_each;
    if (!lets_inside)
        for (const Move& move : moves) name_both(move, out);
    const std::size_t known = names_.size();
    const std::int64_t value = random_.between(-1, 3);
    const std::string bounds = range(value, value + 1, random_.chance(30));
    std::string head = fmt::format("each {} in {}", new_name(), bounds);
    names_.back().value = value;
    if (random_.chance(20)) {
        features_.insert("let before where");
        if (random_.chance(30)) {
            head += " " + function();
        } else {
            const std::int64_t other = random_.between(-2, 4);
            const std::string text = number(other).text;
            head += fmt::format(" let {} = {}", new_name(), text);
            names_.back().value = other;
        }
    }
    if (random_.chance(20)) {
        features_.insert("where");
        head += " where " + expressions_.truth(true, numbers()).text;
    }
    Statements body;
    for (const Move& move : moves) {
        maybe_let(body);
        for (const View* view : {move.view, move.to_view})
            if (view && lets_inside && known_name(view).empty()) {
                features_.insert("let of a part in an each");
                name(view, body);
            }
        std::string choice;
        if (random_.chance(15)) {
            features_.insert("if in an each");
            choice = this->choice() + " ";
        }
        body.push_back({choice + transfer(move)});
    }
    names_.resize(known);
    features_.insert("each");
    if (body.size() == 1 && random_.chance(50))
        out.push_back({head + "  " + body[0].text});
    else
        out.push_back({head, true, std::move(body)});
}

namespace {

bool alike(const std::vector<Move>& moves, bool same_region) {
    return std::all_of(moves.begin(), moves.end(), [&](const Move& move) {
        const Move& first = moves[0];
        const bool single = move.last - move.first == 1 && first.last - first.first == 1;
        const bool same =
            move.first == first.first && move.last == first.last && move.to_first == first.to_first;
        return move.view == first.view && move.to_view == first.to_view && move.combines == first.combines &&
               (same || (!same_region && single));
    });
}

}  // namespace

// The text of the transfers `moves[index]`: their numbers are items of lists.
std::string Writer::listed(const std::vector<Move>& moves, const Expression& index) {
    const int size = surroundings_.size;
    std::vector<std::int64_t> sources, destinations, chunks, targets;
    for (const Move& move : moves) {
        sources.push_back(move.source);
        destinations.push_back(move.destination);
        chunks.push_back(move.first);
        targets.push_back(move.to_first);
    }
    const auto chunk_of = [&](const View* view, const std::vector<std::int64_t>& list) {
        features_.insert("chunk");
        const Expression chunk = expressions_.item(list, size, index, numbers());
        return fmt::format("{}[{}]", known_name(view), turned(chunk, turn_ && turn_->chunks).text);
    };
    const Move& first = moves[0];
    const bool one_region = alike(moves, true);
    const std::string where =
        one_region ? region(first.view, first.first, first.last - first.first) : chunk_of(first.view, chunks);
    std::string to;
    if (one_region)
        to = target(first);
    else if (first.to_view)
        to = chunk_of(first.to_view, targets) + " : ";
    const Expression source = expressions_.item(sources, size, index, numbers());
    const Expression destination = expressions_.item(destinations, size, index, numbers());
    features_.insert(moves[0].combines ? "+>" : "->");
    return fmt::format("{} : {} {} {}{}", where, turned(source, turn_.has_value()).text,
                       moves[0].combines ? "+>" : "->", to, turned(destination, turn_.has_value()).text);
}

// each i in 0 ..< n  x[CODE / size ** i mod size] : ...
void Writer::each_of_list(const std::vector<Move>& moves, Statements& out) {
    name_both(moves[0], out);
    const std::size_t known = names_.size();
    const auto length = static_cast<std::int64_t>(moves.size());
    const bool down = random_.chance(30);
    std::string head = "each ";
    const std::string bounds = range(0, length, down);
    const std::string variable = new_name();
    head += variable + " in " + bounds;
    if (random_.chance(25)) {  // a product, of which `where` takes one
        features_.insert("product of ranges");
        const std::int64_t value = random_.between(0, 2);
        const std::string other_bounds = range(0, 3);
        const std::string other = new_name();
        const Expression is_it = binary({other}, "==", number(value));
        head += fmt::format(", {} in {} where {}", other, other_bounds, is_it.text);
    }
    features_.insert("each");
    const std::string text = listed(moves, {variable});
    names_.resize(known);
    out.push_back({head + "  " + text});
}

// each a in g, b in g where a == 0 and (b == 1 or b == 2)  x : a -> b
void Writer::each_of_members(const std::vector<Move>& moves, Statements& out) {
    name_both(moves[0], out);
    const std::size_t known = names_.size();
    const std::string source_bounds = range(0, surroundings_.size, random_.chance(20));
    const std::string destination_bounds = range(0, surroundings_.size, random_.chance(20));
    std::string source = new_name();
    const std::string destination = new_name();
    std::string head =
        fmt::format("each {} in {}, {} in {}", source, source_bounds, destination, destination_bounds);
    if (random_.chance(30)) {
        features_.insert("where sees a let");
        const std::string other = new_name();
        head += fmt::format(" let {} = {}", other, source);
        source = other;
    }
    features_.insert("product of ranges");
    features_.insert("where");
    features_.insert("each");
    Expression any;
    for (const Move& move : moves) {
        // Wrapped: the ranges hold the members' numbers themselves.
        const auto is = [&](const std::string& variable, int member) {
            Expression value = place(member, turn_.has_value());
            if (!turn_ || !turn_->by_xor) value = binary(value, "mod", {surroundings_.size_name});
            return binary({variable}, "==", value);
        };
        const Expression from = is(source, move.source);
        const Expression pair = binary(from, "and", is(destination, move.destination));
        any = any.text.empty() ? pair : binary(any, "or", pair);
    }
    const std::string where = region(moves[0].view, moves[0].first, moves[0].last - moves[0].first);
    const std::string to = target(moves[0]);
    names_.resize(known);
    out.push_back({fmt::format("{} where {}\n{} : {} {} {}{}", head, any.text, "        " + where, source,
                               moves[0].combines ? "+>" : "->", to, destination)});
}

void Writer::phase(const std::vector<Move>& moves, Statements& out) {
    maybe_let(out);
    if (moves.size() == 1 && random_.chance(75)) {
        name_both(moves[0], out);
        out.push_back({transfer(moves[0])});
        features_.insert("transfer by itself");
        return;
    }
    const bool fits = moves.size() <= Expressions::most_items(surroundings_.size);
    if (fits && alike(moves, false) && random_.chance(45)) return each_of_list(moves, out);
    if (alike(moves, true) && moves.size() <= 6 && random_.chance(30)) return each_of_members(moves, out);
    each_of_block(moves, out);
}

// ---- Plans --------------------------------------------------------------------------------------

std::vector<const Plan*> flattened(const Plan& plan, Random& random) {
    if (plan.kind != Plan::Kind::sequence && plan.kind != Plan::Kind::independent) return {&plan};
    std::vector<std::vector<const Plan*>> strands;
    for (const Plan& part : plan.parts) strands.push_back(flattened(part, random));
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < strands.size(); ++i) order.insert(order.end(), strands[i].size(), i);
    if (plan.kind == Plan::Kind::independent) random.shuffle(order);
    std::vector<std::size_t> at(strands.size(), 0);
    std::vector<const Plan*> result;
    for (const std::size_t strand : order) result.push_back(strands[strand][at[strand]++]);
    return result;
}

void Writer::write(const Plan& plan, Statements& out) {
    switch (plan.kind) {
        case Plan::Kind::phase:
            return phase(plan.moves, out);
        case Plan::Kind::sequence: {
            std::vector<const Plan*> parts;
            for (const Plan& part : plan.parts) parts.push_back(&part);
            return sequence(parts, out);
        }
        case Plan::Kind::independent:
            return independent(plan, out);
        case Plan::Kind::rounds:
            return rounds(
                plan.view, [&](Statements& body) { write(plan.parts[0], body); }, out);
        case Plan::Kind::symmetric:
            return symmetric(plan, out);
        case Plan::Kind::family:
            return family(plan, out);
    }
}

// Phases of one transfer each as a loop, if there are some alike: `at` is then behind them.
bool Writer::loop_of_list(const std::vector<const Plan*>& plans, std::size_t& at, Statements& out) {
    std::vector<Move> moves;
    std::size_t end = at;
    for (; end < plans.size(); ++end) {
        if (plans[end]->kind != Plan::Kind::phase || plans[end]->moves.size() != 1) break;
        moves.push_back(plans[end]->moves[0]);
        if (alike(moves, false) && moves.size() <= Expressions::most_items(surroundings_.size)) continue;
        moves.pop_back();
        break;
    }
    if (moves.size() < 2) return false;
    at = end;
    name_both(moves[0], out);
    const bool down = random_.chance(30);
    if (down) std::reverse(moves.begin(), moves.end());
    const std::string bounds = range(0, static_cast<std::int64_t>(moves.size()), down);
    const std::size_t known = names_.size();
    const std::string variable = new_name();
    features_.insert("for");
    const std::string text = listed(moves, {variable});
    names_.resize(known);
    out.push_back({fmt::format("for {} in {}  {}", variable, bounds, text)});
    return true;
}

void Writer::sequence(const std::vector<const Plan*>& plans, Statements& out) {
    for (std::size_t at = 0; at < plans.size();) {
        if (random_.chance(35) && loop_of_list(plans, at, out)) continue;
        if (random_.chance(15)) {  // some of them in a block, with which names end
            const auto left = static_cast<std::int64_t>(plans.size() - at);
            const std::size_t end =
                at + static_cast<std::size_t>(random_.between(1, std::min<std::int64_t>(left, 3)));
            block(out, true, [&](Statements& body) {
                for (; at < end; ++at) write(*plans[at], body);
            });
            continue;
        }
        write(*plans[at++], out);
    }
}

void Writer::independent(const Plan& plan, Statements& out) {
    std::vector<const Plan*> parts;
    switch (random_.below(3)) {
        case 0:  // one after the other
            for (const Plan& part : plan.parts) parts.push_back(&part);
            random_.shuffle(parts);
            return sequence(parts, out);
        case 1:  // each in a block of its own
            for (const Plan& part : plan.parts) parts.push_back(&part);
            random_.shuffle(parts);
            for (const Plan* part : parts) block(out, true, [&](Statements& body) { write(*part, body); });
            return;
        default:
            break;
    }
    // Interleaved, some of neighbouring phases at once.
    features_.insert("interleaved pieces");
    std::vector<std::vector<const Plan*>> strands;
    for (const Plan& part : plan.parts) strands.push_back(flattened(part, random_));
    std::vector<std::size_t> at(strands.size(), 0);
    std::deque<Plan> joined;
    std::vector<const Plan*> all;
    while (true) {
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < strands.size(); ++i)
            if (at[i] < strands[i].size()) open.push_back(i);
        if (open.empty()) break;
        const std::size_t first = random_.pick(open);
        const Plan* next = strands[first][at[first]++];
        if (next->kind == Plan::Kind::phase && random_.chance(40)) {
            joined.push_back(*next);
            for (const std::size_t other : open) {
                if (other == first || strands[other][at[other]]->kind != Plan::Kind::phase ||
                    random_.chance(40))
                    continue;
                const Plan& more = *strands[other][at[other]++];
                joined.back().moves.insert(joined.back().moves.end(), more.moves.begin(), more.moves.end());
            }
            next = &joined.back();
        }
        all.push_back(next);
    }
    sequence(all, out);
}

// for t in 0 ..< n { let y = x.part(t of n) ... }
void Writer::rounds(const View* view, const std::function<void(Statements&)>& fill, Statements& out) {
    const int parts = view->parts;
    const auto body_of = [&](const std::string& index, Statements& body) {
        rounds_.emplace_back(view, index);
        if (random_.chance(70)) name(view, body);
        fill(body);
        rounds_.pop_back();
    };
    if (random_.chance(20)) {  // written out
        for (int index = 0; index < parts; ++index) {
            const std::string text = number(index).text;
            block(out, true, [&](Statements& body) { body_of(text, body); });
        }
        return;
    }
    const bool is_parallel = random_.chance(45);
    features_.insert(is_parallel ? "parallel over parts" : "for over parts");
    const std::int64_t first = random_.chance(80) ? 0 : random_.between(-2, 2);
    const std::string bounds = range(first, first + parts, random_.chance(25));
    if (is_parallel) features_.insert("parallel");
    features_.insert("for");
    Statements body = inside([&](Statements& into) {
        const std::string variable = new_name();
        Expression index{variable};
        if (first != 0) index = binary(index, first > 0 ? "-" : "+", number(std::abs(first)));
        if (random_.chance(20)) {
            const Expression last = number(parts - 1);
            index = binary(last, "-", index);
        }
        body_of(index.text, into);
        Statement loop{(is_parallel ? "parallel " : "for ") + variable + " in " + bounds, true,
                       std::move(into)};
        into = {std::move(loop)};
    });
    out.push_back(std::move(body[0]));
}

void Writer::symmetric(const Plan& plan, Statements& out) {
    const std::optional<Turn> outer = turn_;
    const int size = surroundings_.size;
    const std::vector<const Plan*> phases = flattened(plan.parts[0], random_);
    const bool only_phases = std::all_of(phases.begin(), phases.end(),
                                         [](const Plan* part) { return part->kind == Plan::Kind::phase; });
    features_.insert(plan.turns_by_xor ? "symmetric by xor" : "symmetric");
    const auto with_variable = [&](const auto& fill) {
        const std::size_t known = names_.size();
        const std::string variable = new_name();
        turn_ = Turn{variable, plan.turns_by_xor, true};
        fill(variable);
        turn_ = outer;
        names_.resize(known);
    };
    if (only_phases && random_.chance(70)) {
        for (const Plan* part : phases) {
            for (const Move& move : part->moves) name_both(move, out);
            const std::string bounds = range(0, size, random_.chance(10));
            with_variable([&](const std::string& variable) {
                Statements body;
                // The loop variable is the number of the chunk (by = 0), or the rank that sends in the first
                // move.
                const int by = random_.chance(60) && !plan.turns_by_xor ? part->moves[0].source : 0;
                for (Move move : part->moves) {
                    const auto turn_back = [&](int place) { return (place - by + size) % size; };
                    move.source = turn_back(move.source);
                    move.destination = turn_back(move.destination);
                    move.first = turn_back(move.first);
                    move.last = move.first + 1;
                    body.push_back({transfer(move)});
                }
                features_.insert("each");
                const std::string head = fmt::format("each {} in {}", variable, bounds);
                if (body.size() == 1 && random_.chance(70))
                    out.push_back({head + "  " + body[0].text});
                else
                    out.push_back({head, true, std::move(body)});
            });
        }
        return;
    }
    const bool is_parallel = random_.chance(45);
    features_.insert(is_parallel ? "parallel over chunks" : "for over chunks");
    const std::string bounds = range(0, size, random_.chance(20));
    with_variable([&](const std::string& variable) {
        Statements body = inside([&](Statements& into) { write(plan.parts[0], into); });
        out.push_back({fmt::format("{} {} in {}", is_parallel ? "parallel" : "for", variable, bounds), true,
                       std::move(body)});
    });
}

void Writer::family(const Plan& plan, Statements& out) {
    name(plan.view, out);
    if (plan.second) name(plan.second, out);
    const std::string buffer = known_name(plan.view);
    const std::string second = plan.second ? known_name(plan.second) : "";
    write_family(*this, random_, features_, plan.collective, buffer, second, out);
}

}  // namespace hocket::differential
