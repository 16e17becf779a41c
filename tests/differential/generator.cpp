#include "tests/differential/generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tests/differential/exchange_plan.hpp"
#include "tests/differential/mutations.hpp"
#include "tests/differential/writer.hpp"

namespace hocket::differential {
namespace {

using Levels = std::vector<int>;  // numbers of levels, ascending
constexpr int any_root = -1;

struct Parameter {
    std::string name, standard, given;
};

// Makes one program.
class Generator {
  public:
    Generator(std::uint64_t seed, const GeneratorOptions& options) : random_(seed), options_(options) {
        program_.seed = seed;
    }

    Program run();

  private:
    // The state of a buffer on its way through the levels.
    struct State {
        const View* view;
        Levels rest;                         // not yet reduced, or not yet reached
        Levels scattered;                    // over these
        std::vector<Levels> collected = {};  // all_reduce: with one rank of these groups
        int depth = 0;
        // all_to_all of a part: how many times it still has to go through a second buffer, as all parts do.
        std::optional<int> seconds = {};
    };

    void choose_topology();
    void define_topology();
    void run_algorithm();
    void run_schedule(bool by_levels);

    // second: the algorithm has a second buffer.
    std::string algorithm(const std::string& collective, const std::vector<int>& sizes, int root,
                          bool second = false);
    std::string algorithm_or_parameter(const std::string& collective, const std::vector<int>& sizes, int root,
                                       bool second = false);
    std::string header(const Writer& writer, const std::string& name, const std::string& collective,
                       const std::string& buffer, const std::string& second, const std::string& parameters);
    std::string some_parameters(Writer& writer, std::string& arguments);
    std::string unique(const std::vector<std::string>& stems);

    void walk(State state, Statements& out);
    bool walk_parts(const State& state, Statements& out);
    bool own_transfers(const State& state, Statements& out);
    bool loops_over_levels(const State& state, Statements& out);
    void strands(const State& state, Statements& out);
    void compose(const std::string& collective, const State& state, const Levels& group, Statements& out,
                 bool second = false);
    void add_step(State& state, Statements& out);
    void add_exchange(State& state, Statements& out);
    bool there_and_back(const State& state, Statements& out);
    int large_levels(const Levels& levels) const;
    bool is_at_start(const State& state) const;
    bool gather_by_own_transfers(const State& state, Statements& out);
    std::string with_root(const std::string& collective);
    std::string group_text(Levels group);
    Levels some_of(const Levels& levels);
    Levels all_levels() const;
    std::vector<int> sizes_of_levels() const;

    int ranks() const { return static_cast<int>(program_.ranks()); }
    int size_of(const Levels& group) const;
    int root_in(const Levels& group, std::int64_t root) const;
    bool is(const char* collective) const { return program_.collective == collective; }
    bool gathers() const { return is("all_gather") || is("gather"); }
    bool scatters() const { return is("reduce_scatter") || is("scatter"); }
    bool exchanges() const { return is("all_to_all"); }
    bool is_by_rank() const { return gathers() || scatters() || exchanges(); }

    Random random_;
    const GeneratorOptions& options_;
    Program program_;
    Statements algorithms_;
    std::set<std::string> taken_;
    std::vector<Parameter> parameters_;
    std::deque<View> views_;
    std::deque<Planning> plannings_;  // own the views of their plans
    std::deque<ExchangePlanning> exchange_plannings_;
    std::optional<Writer> writer_;  // of the schedule's body
    std::string root_name_;
    std::int64_t root_ = 0;  // of the schedule's parts
};

bool has_root(const std::string& collective) {
    return collective == "broadcast" || collective == "reduce" || collective == "gather" ||
           collective == "scatter";
}

// ---- Its topology -------------------------------------------------------------------------------

void Generator::choose_topology() {
    const std::int64_t most = random_.chance(10) ? 12 : random_.chance(60) ? 6 : 9;
    while (true) {
        program_.levels.clear();
        const std::int64_t count = random_.pick<std::int64_t>({1, 1, 2, 2, 2, 3});
        for (std::int64_t level = 0; level < count; ++level)
            program_.levels.push_back(
                {"", random_.chance(4) ? 1 : random_.between(2, count == 1 ? most : 4)});
        if (program_.ranks() <= most && (program_.ranks() > 1 || random_.chance(30))) break;
    }
    for (std::size_t level = 0; level < program_.levels.size(); ++level) {
        program_.levels[level].name = fmt::format("l{}", level);
        program_.topology += fmt::format("{}{}", level == 0 ? "" : "x", program_.levels[level].size);
    }
    program_.features.insert(fmt::format("{} levels", program_.levels.size()));
    if (random_.chance(20)) define_topology();
}

void Generator::define_topology() {
    program_.features.insert("topology of the file");
    static const std::vector<std::string> names{"gpu", "socket", "rack", "l1", "node"};
    Statement topology{"topology places", true};
    std::vector<std::string> free = names;
    for (reference::Level& level : program_.levels) {
        random_.shuffle(free);
        level.name = free.back();
        free.pop_back();
        topology.body.push_back({fmt::format("level {}[{}] {{ medium fabric }}", level.name, level.size)});
    }
    program_.topology = "places";
    program_.topology_is_defined = true;
    program_.definitions.push_back(std::move(topology));
}

Levels Generator::all_levels() const {
    Levels all;
    for (std::size_t level = 0; level < program_.levels.size(); ++level)
        all.push_back(static_cast<int>(level));
    return all;
}

std::vector<int> Generator::sizes_of_levels() const {
    std::set<int> sizes;
    for (const reference::Level& level : program_.levels) sizes.insert(static_cast<int>(level.size));
    return {sizes.begin(), sizes.end()};
}

int Generator::size_of(const Levels& group) const {
    int size = 1;
    for (const int level : group)
        size *= static_cast<int>(program_.levels[static_cast<std::size_t>(level)].size);
    return size;
}

int Generator::root_in(const Levels& group, std::int64_t root) const {
    int member = 0, stride = 1;
    std::int64_t rest = root;
    for (int level = 0; level < static_cast<int>(program_.levels.size()); ++level) {
        const auto size = static_cast<int>(program_.levels[static_cast<std::size_t>(level)].size);
        if (std::count(group.begin(), group.end(), level)) {
            member += stride * static_cast<int>(rest % size);
            stride *= size;
        }
        rest /= size;
    }
    return member;
}

std::string Generator::unique(const std::vector<std::string>& stems) {
    std::string name = random_.pick(stems);
    for (int number = 2; !taken_.insert(name).second; ++number)
        name = fmt::format("{}{}", random_.pick(stems), number);
    return name;
}

// ---- Algorithms ---------------------------------------------------------------------------------

std::string Generator::header(const Writer& writer, const std::string& name, const std::string& collective,
                              const std::string& buffer, const std::string& second,
                              const std::string& parameters) {
    const Surroundings& around = writer.surroundings();
    std::string head = fmt::format("algorithm {} {}({}{}{}{}) over {}", name, collective, buffer,
                                   second.empty() ? "" : ", " + second,
                                   around.root.empty() ? "" : ", " + around.root, parameters, around.group);
    if (around.sizes.size() > 1 || !random_.chance(25)) return head;
    program_.features.insert("where of an algorithm");
    Expressions expressions(random_, program_.features);
    const std::vector<Number> known{{around.size_name, around.size}};
    return head + " where " +
           (random_.chance(50) ? fmt::format("{} == {}", around.size_name, around.size)
                               : expressions.truth(true, known).text);
}

// The algorithm's parameters, for its header, which the writer knows from now on. Where the defaults are
// wrong, the arguments have the values.
std::string Generator::some_parameters(Writer& writer, std::string& arguments) {
    if (!random_.chance(15)) return "";
    program_.features.insert("parameter of an algorithm");
    std::string header;
    bool has_labels = false, has_gap = false;
    for (std::int64_t left = random_.between(1, 3); left > 0; --left) {
        const std::string name = writer.new_name();
        const std::int64_t value = random_.between(-2, 6);
        const bool by_default = random_.chance(40);
        writer.set_last(value);
        header += fmt::format("{}{} = {}", header.empty() ? "; " : ", ", name,
                              by_default ? value : random_.between(-2, 6));
        has_gap |= by_default;
        if (by_default) continue;
        has_labels |= has_gap || random_.chance(40);
        program_.features.insert(has_labels ? "argument by name" : "argument by position");
        arguments +=
            fmt::format("{}{}{}", arguments.empty() ? "" : ", ", has_labels ? name + " = " : "", value);
    }
    if (!arguments.empty()) arguments = "(" + arguments + ")";
    return header;
}

std::string Generator::algorithm(const std::string& collective, const std::vector<int>& sizes, int root,
                                 bool second) {
    const std::string name = unique({"alpha", "beta", "gamma", "delta", "ring", "tree", "swap"});
    const std::string buffer = random_.pick<std::string>({"x", "x", "x", "buf", "o", "gather"});
    const std::string group = random_.pick<std::string>({"g", "g", "team", "all"});
    const bool rooted = has_root(collective);
    const std::string root_name = rooted ? random_.pick<std::string>({"root", "origin", "l0"}) : "";
    Writer writer(random_, options_, program_.features,
                  {sizes[0], sizes, group, group + ".size", true, root_name, is_by_rank()});
    views_.push_back({});
    const View* whole = &views_.back();
    writer.know(buffer, whole);
    const View* beside = nullptr;
    std::string second_name;
    if (second) {
        program_.features.insert("second buffer");
        views_.push_back({});
        beside = &views_.back();
        second_name = random_.pick<std::string>({"y", "y", "out", "scatter"});
        writer.know(second_name, beside);
    }
    std::string arguments;
    const std::string parameters = some_parameters(writer, arguments);
    // For any root, or for the one that it will have.
    const bool is_divided = collective == "gather" || collective == "scatter";
    const bool by_family = sizes.size() > 1 || (is_divided && root == any_root);
    const bool relative = rooted && !is_divided && (root == any_root || random_.chance(60));
    if (relative && !by_family) {
        program_.features.insert("relative to the root");
        const bool pow2 = std::has_single_bit(static_cast<unsigned>(sizes[0]));
        writer.turn_by({root_name, pow2 && random_.chance(40), false});
    } else if (rooted && !by_family) {
        writer.know(root_name, root);
    }
    Statements body;
    if (by_family) {
        const Plan family{Plan::Kind::family, {}, {}, whole, false, collective, beside};
        if (random_.chance(25)) {
            views_.push_back({whole, of_the_round, static_cast<int>(random_.between(2, 3))});
            const View* round = &views_.back();
            Plan of_round = family;
            of_round.view = round;
            if (beside) {
                views_.push_back({beside, of_the_round, round->parts, round});
                of_round.second = &views_.back();
            }
            writer.rounds(
                round, [&](Statements& inner) { writer.write(of_round, inner); }, body);
        } else {
            writer.write(family, body);
        }
    } else if (collective == "all_to_all") {
        exchange_plannings_.emplace_back(random_, sizes[0]);
        writer.write(exchange_plannings_.back().plan(*whole, beside), body);
    } else {
        plannings_.emplace_back(random_, PlanRequest{collective, sizes[0], relative ? 0 : root});
        writer.write(plannings_.back().plan(*whole), body);
    }
    algorithms_.push_back(
        {header(writer, name, collective, buffer, second_name, parameters), true, std::move(body)});
    return name + arguments;
}

std::string Generator::algorithm_or_parameter(const std::string& collective, const std::vector<int>& sizes,
                                              int root, bool second) {
    const std::string name = algorithm(collective, sizes, root, second);
    if (name.back() == ')' || !random_.chance(15)) return name;
    program_.features.insert("parameter");
    Parameter parameter{fmt::format("param{}", parameters_.size() + 1), name, name};
    if (random_.chance(50)) parameter.standard = random_.chance(50) ? "nothing" : "7";
    parameters_.push_back(parameter);
    return parameter.name;
}

// ---- Schedules ----------------------------------------------------------------------------------

Levels Generator::some_of(const Levels& levels) {
    Levels rest = levels, some;
    random_.shuffle(rest);
    const std::int64_t count =
        random_.chance(65) ? 1 : random_.between(1, static_cast<std::int64_t>(rest.size()));
    some.assign(rest.begin(), rest.begin() + count);
    std::sort(some.begin(), some.end());
    return some;
}

std::string Generator::group_text(Levels group) {
    if (group == all_levels() && random_.chance(group.size() == 1 ? 30 : 60)) {
        program_.features.insert("over world");
        return "world";
    }
    random_.shuffle(group);
    std::string text;
    for (const int level : group) {
        text += text.empty() ? "" : ", ";
        if (random_.chance(50))
            text += program_.levels[static_cast<std::size_t>(level)].name;
        else
            text += "levels[" + writer_->number(level).text + "]";
    }
    program_.features.insert(group.size() > 1 ? "over several levels" : "over a level");
    return group.size() > 1 ? "(" + text + ")" : text;
}

void Generator::compose(const std::string& collective, const State& state, const Levels& group,
                        Statements& out, bool second) {
    writer_->maybe_let(out);
    writer_->name(state.view, out);
    const std::string buffer = writer_->known_name(state.view);
    const std::string over = group_text(group);
    const std::string root = with_root(collective);
    const std::string name =
        algorithm_or_parameter(collective, {size_of(group)}, root_in(group, root_), second);
    out.push_back({fmt::format("{} {} over {}{} using {}", collective, buffer, over, root, name)});
    program_.features.insert("composed " + collective);
}

// " from root", " to 3", or nothing.
std::string Generator::with_root(const std::string& collective) {
    if (!has_root(collective)) return "";
    const bool by_name = !root_name_.empty() && random_.chance(75);
    return (collective == "reduce" || collective == "gather" ? " to " : " from ") +
           (by_name ? root_name_ : writer_->number(root_).text);
}

bool Generator::is_at_start(const State& state) const {
    const Levels all = all_levels();
    if (!state.collected.empty()) return false;
    return gathers() ? state.scattered == all : state.rest == all && state.scattered.empty();
}

bool Generator::own_transfers(const State& state, Statements& out) {
    if (!is_at_start(state) || ranks() == 1 || state.seconds.value_or(0) != 0) return false;
    program_.features.insert("own transfers");
    if (exchanges()) {
        exchange_plannings_.emplace_back(random_, ranks());
        writer_->write(exchange_plannings_.back().plan(*state.view, nullptr), out);
        return true;
    }
    const bool agree = is_by_rank();
    plannings_.emplace_back(
        random_, PlanRequest{program_.collective, ranks(), static_cast<int>(program_.root), agree});
    writer_->write(plannings_.back().plan(*state.view), out);
    return true;
}

bool Generator::walk_parts(const State& state, Statements& out) {
    if (state.depth > 1) return false;
    const int parts = static_cast<int>(random_.between(2, 3));
    State next = state;
    ++next.depth;
    if (exchanges() && !next.seconds)
        next.seconds = static_cast<int>(random_.between(0, large_levels(state.rest)));
    if (random_.chance(45)) {
        views_.push_back({state.view, of_the_round, parts});
        next.view = &views_.back();
        writer_->rounds(
            next.view, [&](Statements& body) { walk(next, body); }, out);
        return true;
    }
    const bool in_blocks = random_.chance(35);
    std::vector<Statements> lists;
    std::vector<const View*> views;
    for (int index = 0; index < parts; ++index) {
        views_.push_back({state.view, index, parts});
        views.push_back(&views_.back());
    }
    random_.shuffle(views);
    writer_->begin_interleaved();
    // A let takes the buffer as it is then: all of them are made before their ways part.
    if (!in_blocks)
        for (const View* view : views) writer_->name(view, out);
    for (const View* view : views) {
        next.view = view;
        if (in_blocks) {
            writer_->block(out, true, [&](Statements& body) { walk(next, body); });
            continue;
        }
        const std::size_t before = writer_->mark();
        lists.emplace_back();
        walk(next, lists.back());
        writer_->hide_since(before);
    }
    writer_->end_interleaved();
    std::vector<std::size_t> order, at(lists.size(), 0);
    for (std::size_t i = 0; i < lists.size(); ++i) order.insert(order.end(), lists[i].size(), i);
    if (random_.chance(60)) {
        program_.features.insert("interleaved parts of a schedule");
        random_.shuffle(order);
    }
    for (const std::size_t i : order) out.push_back(std::move(lists[i][at[i]++]));
    return true;
}

// for l in levels  reduce_scatter x over l
bool Generator::loops_over_levels(const State& state, Statements& out) {
    if (!is_at_start(state)) return false;
    // An exchange over each level, or none, goes through a second buffer.
    const int large = large_levels(state.rest);
    const bool second = exchanges() && (state.seconds ? *state.seconds > 0 : random_.chance(65));
    if (state.seconds && *state.seconds != (second ? large : 0)) return false;
    std::vector<std::string> steps{program_.collective};
    if (is("all_reduce") && random_.chance(65)) steps = {"reduce_scatter", "all_gather"};
    if (is("reduce") && random_.chance(40)) steps = {"reduce_scatter", "gather"};
    if (is("broadcast") && random_.chance(25)) steps = {"scatter", "all_gather"};
    if (all_levels().size() > 1 && is("all_reduce") && steps.size() == 2 && random_.chance(25)) {
        strands(state, out);
        return true;
    }
    for (const std::string& step : steps) {
        writer_->name(state.view, out);
        const std::string buffer = writer_->known_name(state.view);
        const std::string name = algorithm_or_parameter(step, sizes_of_levels(), any_root, second);
        const std::string root = with_root(step);
        const auto statement = [&](const std::string& over) {
            return fmt::format("{} {} over {}{} using {}", step, buffer, over, root, name);
        };
        Statements loop = writer_->inside([&](Statements& body) {
            std::string head, over;
            if (random_.chance(60)) {
                const bool reversed = random_.chance(50);
                program_.features.insert(reversed ? "for over levels.reversed" : "for over levels");
                over = writer_->new_name();
                head = fmt::format("for {} in levels{}", over, reversed ? ".reversed" : "");
            } else {
                program_.features.insert("for over levels by number");
                const std::string index = writer_->new_name();
                head = random_.chance(50) ? fmt::format("for {} in 0 ..< levels.count", index)
                                          : fmt::format("for {} in levels.count >.. 0", index);
                over = fmt::format("levels[{}]", index);
            }
            body.push_back(random_.chance(60) ? Statement{head + "  " + statement(over)}
                                              : Statement{head, true, Statements{{statement(over)}}});
        });
        out.push_back(std::move(loop[0]));
    }
    return true;
}

// As BML: each strand takes the levels in another order.
void Generator::strands(const State& state, Statements& out) {
    program_.features.insert("strands over levels");
    program_.features.insert("parallel");
    writer_->name(state.view, out);
    const std::string buffer = writer_->known_name(state.view);
    const std::string scatter = algorithm("reduce_scatter", sizes_of_levels(), 0);
    const std::string gather = algorithm("all_gather", sizes_of_levels(), 0);
    Statements all = writer_->inside([&](Statements& body) {
        const std::string strand = writer_->new_name();
        const std::string part = writer_->new_name();
        const std::string round = writer_->new_name();
        const std::string level = fmt::format("levels[({} + {}) mod levels.count]", strand, round);
        Statement loop{fmt::format("parallel {} in 0 ..< levels.count", strand), true};
        loop.body.push_back({fmt::format("let {} = {}.part({} of levels.count)", part, buffer, strand)});
        loop.body.push_back({fmt::format("for {} in 0 ..< levels.count  reduce_scatter {} over {} using {}",
                                         round, part, level, scatter)});
        loop.body.push_back({fmt::format("for {} in levels.count >.. 0  all_gather {} over {} using {}",
                                         round, part, level, gather)});
        body.push_back(std::move(loop));
    });
    out.push_back(std::move(all[0]));
}

void Generator::walk(State state, Statements& out) {
    if (random_.chance(20) && loops_over_levels(state, out)) return;
    while (!state.rest.empty() || (!state.scattered.empty() && !scatters()) || !state.collected.empty()) {
        if (random_.chance(state.depth == 0 ? 25 : 10) && walk_parts(state, out)) return;
        if (random_.chance(8) && there_and_back(state, out)) continue;
        if (random_.chance(12) && own_transfers(state, out)) return;
        if (gather_by_own_transfers(state, out)) return;
        add_step(state, out);
    }
}

bool Generator::gather_by_own_transfers(const State& state, Statements& out) {
    const bool fits = is("all_reduce") && state.scattered == all_levels() && state.collected.empty();
    if (!fits || !random_.chance(12)) return false;
    program_.features.insert("own transfers of what is scattered");
    writer_->name(state.view, out);
    const std::string buffer = writer_->known_name(state.view);
    Statements gather = writer_->inside([&](Statements& body) {
        const std::string a = writer_->new_name();
        const std::string b = writer_->new_name();
        body.push_back({fmt::format("each {0} in world, {1} in world where {0} != {1}  {2}[{0}] : {0} -> {1}",
                                    a, b, buffer)});
    });
    out.push_back(std::move(gather[0]));
    return true;
}

Levels without(const Levels& all, const Levels& some) {
    Levels left;
    std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(left));
    return left;
}

// The number of levels with more than one rank.
int Generator::large_levels(const Levels& levels) const {
    return static_cast<int>(
        std::count_if(levels.begin(), levels.end(), [&](int level) { return size_of({level}) > 1; }));
}

// Over some levels; where a number of second buffers is asked for, it must still be reached, and not
// exceeded.
void Generator::add_exchange(State& state, Statements& out) {
    while (true) {
        const Levels group = some_of(state.rest);
        const bool second = random_.chance(65);
        const bool counts = second && size_of(group) > 1;
        const Levels rest = without(state.rest, group);
        if (state.seconds) {
            const int left = *state.seconds - (counts ? 1 : 0);
            if (left < 0 || left > large_levels(rest)) continue;
            state.seconds = left;
        }
        compose("all_to_all", state, group, out, second);
        // Three times is once.
        const bool more = !state.seconds && random_.chance(8);
        for (int time = 0; more && time < 2; ++time) {
            program_.features.insert("exchanged and exchanged back");
            compose("all_to_all", state, group, out, random_.chance(65));
        }
        state.rest = rest;
        return;
    }
}

// Over levels that all ranks have all of x in; twice is not at all. All of x at once, or its parts would have
// gone through different numbers of buffers.
bool Generator::there_and_back(const State& state, Statements& out) {
    const Levels free = without(all_levels(), state.scattered);
    if (state.depth > 0 || free.empty() || !(is("reduce_scatter") || is("all_gather"))) return false;
    const Levels group = some_of(free);
    program_.features.insert("exchanged and exchanged back");
    for (int time = 0; time < 2; ++time) compose("all_to_all", state, group, out, random_.chance(65));
    return true;
}

// One statement over some levels, of those that bring the schedule's data further.
void Generator::add_step(State& state, Statements& out) {
    if (exchanges()) return add_exchange(state, out);
    const bool may_gather = !state.scattered.empty() && !scatters();
    const bool may_hand_out = !state.collected.empty();
    if (may_hand_out && ((state.rest.empty() && !may_gather) || random_.chance(30))) {
        compose("broadcast", state, state.collected.back(), out);
        state.collected.pop_back();
        return;
    }
    if (may_gather && (state.rest.empty() || random_.chance(15))) {
        const Levels group = some_of(state.scattered);
        const bool to_root = is("gather") || is("reduce");
        compose(to_root && random_.chance(75) ? "gather" : "all_gather", state, group, out);
        state.scattered = without(state.scattered, group);
        return;
    }
    const Levels group = some_of(state.rest);
    std::string step = program_.collective;
    if ((is("all_reduce") && random_.chance(65)) || (is("reduce") && random_.chance(40)))
        step = "reduce_scatter";
    else if (is("all_reduce") && random_.chance(40))
        step = "reduce";
    else if (is("reduce") && random_.chance(15))
        step = "all_reduce";
    else if (is("broadcast") && random_.chance(25))
        step = "scatter";
    else if (is("scatter") && random_.chance(15))
        step = "broadcast";
    compose(step, state, group, out);
    state.rest = without(state.rest, group);
    if (step == "reduce" && is("all_reduce")) {
        program_.features.insert("reduced, and broadcast later");
        state.collected.push_back(group);
    }
    if (step == "reduce_scatter" || step == "scatter") {
        state.scattered.insert(state.scattered.end(), group.begin(), group.end());
        std::sort(state.scattered.begin(), state.scattered.end());
    }
}

void Generator::run_schedule(bool by_levels) {
    const std::string name = unique({"main", "plan", "whole", "ring"});
    const std::string buffer = random_.pick<std::string>({"x", "x", "x", "data", "o", "scatter"});
    const bool rooted = has_root(program_.collective);
    root_ = rooted ? program_.root : random_.below(ranks());
    root_name_ = rooted ? random_.pick<std::string>({"root", "origin"}) : "";
    writer_.emplace(random_, options_, program_.features,
                    Surroundings{ranks(),
                                 {ranks()},
                                 "world",
                                 random_.pick<std::string>({"ranks", "world.size"}),
                                 is_by_rank(),
                                 root_name_,
                                 is_by_rank()});
    views_.push_back({});
    const View* whole = &views_.back();
    writer_->know(buffer, whole);
    if (rooted) writer_->know(root_name_, program_.root);
    for (const reference::Level& level : program_.levels)
        if (random_.chance(85)) writer_->know(level.name);  // else it may be hidden by another name
    if (random_.chance(15)) {
        const std::string value = std::to_string(random_.between(0, 5));
        parameters_.push_back({"count1", random_.chance(50) ? value : "3", value});
        writer_->know("count1", std::stoll(value));
        program_.features.insert("parameter");
    }
    Statements body;
    State state{whole, gathers() ? Levels{} : all_levels(), gathers() ? all_levels() : Levels{}};
    if (by_levels || !own_transfers(state, body)) walk(state, body);

    std::string head = fmt::format("schedule {} {}({}{}", name, program_.collective, buffer,
                                   rooted ? ", " + root_name_ : "");
    std::string arguments;
    bool any_given = false;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const Parameter& parameter = parameters_[i];
        head += fmt::format("{}{} = {}", i == 0 ? "; " : ", ", parameter.name, parameter.standard);
        arguments += (i == 0 ? "" : ", ") + parameter.given;
        any_given |= parameter.given != parameter.standard;
    }
    head += ")";
    if (random_.chance(15)) {
        program_.features.insert("where of a schedule");
        head += fmt::format(" where ranks == {} and levels.count > {}", ranks(), program_.levels.size() - 1);
    }
    algorithms_.push_back({head, true, std::move(body)});
    program_.schedule =
        any_given || (!parameters_.empty() && random_.chance(50)) ? name + "(" + arguments + ")" : name;
}

Program Generator::run() {
    choose_topology();
    program_.collective = random_.pick<std::string>(
        {"all_reduce", "all_reduce", "all_reduce", "reduce_scatter", "reduce_scatter", "all_gather",
         "broadcast", "reduce", "gather", "scatter", "all_to_all", "all_to_all", "all_to_all"});
    if (has_root(program_.collective)) program_.root = random_.below(ranks());
    const std::int64_t kind = random_.below(100);
    if (kind < 30) {
        program_.family = "algorithm";
        program_.schedule = algorithm(program_.collective, {ranks()}, static_cast<int>(program_.root),
                                      exchanges() && random_.chance(65));
    } else {
        program_.family = kind < 45 ? "transfers" : "levels";
        run_schedule(kind >= 45);
    }
    random_.shuffle(algorithms_);
    for (Statement& definition : algorithms_) program_.definitions.push_back(std::move(definition));
    program_.features.insert(program_.collective);
    if (random_.chance(options_.mutated_percent)) mutate(program_, random_);
    return std::move(program_);
}

}  // namespace

GeneratorOptions options_from_environment() {
    const char* text = std::getenv("HOCKET_DIFFERENTIAL_WITHOUT");
    const std::string without = text ? text : "";
    GeneratorOptions options;
    options.bare_blocks = without.find("bare-blocks") == std::string::npos;
    options.part_lets_in_each = without.find("part-lets-in-each") == std::string::npos;
    return options;
}

Program generate(std::uint64_t seed, const GeneratorOptions& options) {
    return Generator(seed, options).run();
}

}  // namespace hocket::differential
