// Motions of the ranks that are read from a schedule's text, compared with its transfers, all laid out.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/graph/atoms.hpp"
#include "dsl/prediction/costs.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Rank;

namespace {

// Random expressions in the variables r, q (over the group) and j, with the operators of the language.
class Writer {
  public:
    explicit Writer(unsigned seed) : random_(seed) {}

    unsigned up_to(unsigned n) { return random_() % n; }
    std::string one_of(std::vector<std::string> texts) {
        return texts[up_to(static_cast<unsigned>(texts.size()))];
    }

    std::string number(int depth) {
        if (depth == 0 || up_to(3) == 0)
            return one_of({"r", "r", "q", "q", "j", "1", "2", "3", "g.size", "k"});
        if (up_to(6) == 0)
            return fmt::format("({} mod {})", number(depth - 1), one_of({"g.size", "2", "3", "4"}));
        if (up_to(6) == 0) return choice(number(depth - 1), number(depth - 1));
        return fmt::format("({} {} {})", number(depth - 1),
                           one_of({"+", "-", "+", "-", "*", "xor", "/", "&", "|", ">>"}), number(depth - 1));
    }
    std::string choice(const std::string& a, const std::string& b) {
        return fmt::format("(if {} then {} else {})", condition(), a, b);
    }
    // Mostly what is usual, so that many are the same for all members.
    std::string endpoint() {
        if (up_to(5) == 0) return number(2);
        if (up_to(12) == 0) return one_of({"f(r)", "f(j)", "r + f(k)", "f(q)"});
        if (!lets_.empty() && up_to(3) == 0)
            return lets_.find(" h(") != std::string::npos   ? one_of({"h(j)", "h(r)", "r + h(1)", "h(q)"})
                   : lets_.find(" a ") != std::string::npos ? "a"
                                                            : "b";
        if (up_to(4) == 0)
            return choice(one_of({"r", "q", "r + j", "r + 1"}), one_of({"r", "q", "r + 2", "r + k", "j"}));
        return one_of({"r", "r", "r", "q", "q", "r + j", "r - k", "r + 1", "q - j", "r xor k", "q xor 1",
                       "r xor 2**j", "r xor (1 << j)", "r & 2", "log(r + 1, 2)", "(r + k) mod g.size",
                       "2 * r - q", "r + q - r"});
    }
    std::string condition() {
        if (up_to(4) == 0) return fmt::format("{} and {}", condition(), condition());
        if (up_to(4) == 0)
            return fmt::format("{} {} {}", number(2), one_of({"!=", "==", "<"}), number(up_to(2)));
        return one_of({"q != r", "q != r", "r != q", "(q - r) mod g.size < k", "j mod 2 == 1", "q - r < k",
                       "r xor q != k", "(r - q) mod 2 == 0", "not (r == q)", "q > r", "r mod 2 == 0",
                       "(r + j) mod g.size != q"});
    }
    std::string chunks() {
        return one_of({"x", "x", "x[r]", "x[q]", "x[r - j]", "x[k]", "x[2 * r]",
                       fmt::format("x[{}]", number(2)), "x[block(r, 2)]", "x[block(q, 2)]",
                       fmt::format("x[block({}, {})]", number(1), one_of({"2", "k", "4", "j + 1"})),
                       "x[0 ..< 1]", "x[0 ..< r + 1]"});
    }
    std::string transfer() { return fmt::format("{} : {} +> {}", chunks(), endpoint(), endpoint()); }
    // Moves chunks of x and y to others.
    std::string exchange() {
        const auto chunk = [&] {
            return one_of({"x", "y"}) +
                   one_of({"[r]", "[r]", "[q]", "[q]", "[r + j]", "[r - k]", "[q xor 1]", "[2 * r]", "[k]",
                           "", "[r ..< r + 2]", "[q ..< q + 2]", "[r + 1 ..< r + 3]", "[block(r, 2)]",
                           "[block(q, 2)]", fmt::format("[{}]", number(1))});
        };
        return fmt::format(
            "algorithm a all_to_all(x, y) over g {{ for k in 1 ..< 3 each r in g, {}, j in 0 ..< {} "
            "{} {{ {} : {} -> {} : {} }} }}",
            one_of({"q in g", "q in 0 ..< 1"}), 1 + up_to(2), up_to(2) > 0 ? "where " + condition() : "",
            chunk(), endpoint(), chunk(), endpoint());
    }
    std::string algorithm() {
        std::string text = "algorithm a all_reduce(x) over g { let f(i) = i + 1 for k in 1 ..< 3 ";
        if (up_to(5) == 0) text += one_of({"if k == 1 ", "if g.size > 2 ", "if k < 2 x : 0 +> 1 else "});
        text += "each r in g";
        if (up_to(2) == 0) text += one_of({", q in g", ", q in 0 ..< g.size", ", q in 1 ..< g.size"});
        if (text.find('q') == std::string::npos) text += ", q in 0 ..< 1";
        text += fmt::format(", j in 0 ..< {}", 1 + up_to(3));
        for (const char* name : {"a", "b"})
            if (up_to(4) == 0) lets_ += fmt::format(" let {} = {}", name, endpoint());
        if (up_to(6) == 0) lets_ += fmt::format(" let h(i) = i + {}", one_of({"1", "r", "j", "q"}));
        text += lets_;
        if (up_to(3) > 0) text += " where " + condition();
        text += " { " + body();
        if (up_to(4) == 0) text += body();
        return text + "} }";
    }
    std::string body() {
        if (up_to(4) > 0) return transfer() + "\n";
        const std::string text = fmt::format("if {} {{ {} }}\n", condition(), transfer());
        return up_to(2) == 0 ? text
                             : text + fmt::format("else {{ let c = {} {} }}\n", endpoint(), transfer());
    }

  private:
    std::mt19937 random_;
    std::string lets_;  // before `where`
};

using Traffic = std::multiset<std::tuple<std::uint32_t, Rank, Rank, double>>;

// Who sends how much to whom in which phase, after a motion; and in how many of these each place is written.
std::pair<Traffic, std::multiset<std::tuple<std::uint32_t, Rank, std::size_t>>> moved(
    const dsl::StepGraph& graph, const dsl::Topology& topology, const dsl::Symmetry& symmetry, Rank to) {
    Traffic traffic;
    std::map<std::tuple<std::uint32_t, Rank, std::uint32_t>, std::size_t> places;
    for (const dsl::Step& step : graph.steps) {
        const Rank source = symmetry.moved(topology, step.source, 0, to);
        const Rank destination = symmetry.moved(topology, step.destination, 0, to);
        traffic.emplace(step.phase, source, destination, dsl::length_of(graph.regions[step.region]));
        ++places[{step.phase, destination, step.target}];
    }
    std::multiset<std::tuple<std::uint32_t, Rank, std::size_t>> written;
    for (const auto& [place, count] : places) written.emplace(std::get<0>(place), std::get<1>(place), count);
    return {traffic, written};
}

// What is moved from whom to whom in which phase, from which cell to which, and whether it combines.
using Moves = std::multiset<std::tuple<std::uint32_t, Rank, Rank, std::uint32_t, std::uint32_t, bool>>;

// Returns the cells of a region, in order.
std::vector<std::uint32_t> cells_of(const dsl::Atoms& atoms, const dsl::Region& region) {
    std::vector<std::uint32_t> cells;
    for (const dsl::AtomRange range : atoms.of(region))
        for (std::uint32_t cell = range.begin; cell < range.end; ++cell) cells.push_back(cell);
    return cells;
}

// All moves after a motion of ranks and pieces.
Moves moved(const dsl::StepGraph& graph, const dsl::Atoms& atoms, const dsl::DataSymmetry& symmetry,
            Rank to) {
    const std::vector<Rank> amounts = symmetry.ranks.amounts(symmetry.topology, to);
    const auto rank = [&](Rank of) { return symmetry.ranks.moved(symmetry.topology, of, amounts); };
    Moves moves;
    for (const dsl::Step& step : graph.steps) {
        const auto from = cells_of(atoms, graph.regions[step.region]),
                   into = cells_of(atoms, graph.regions[step.target]);
        REQUIRE(from.size() == into.size());
        for (std::size_t i = 0; i < from.size(); ++i)
            moves.emplace(step.phase, rank(step.source), rank(step.destination),
                          symmetry.moved(from[i], amounts), symmetry.moved(into[i], amounts), step.combines);
    }
    return moves;
}

// Returns false if the finder knows of no motion of the data.
bool moves_data(const dsl::SymmetryFinder& finder, const dsl::StepGraph& graph) {
    try {
        const dsl::DataSymmetry symmetry = finder.found_with_data(graph.buffers);
        dsl::Atoms atoms;
        atoms.add(graph.regions);
        atoms.add({symmetry.intervals()});
        atoms.settle(graph.buffers, graph.pieces_alike());
        if (atoms.count() != symmetry.count()) return false;  // the proof does not take it
        for (Rank to = 1; to < graph.ranks; ++to)
            REQUIRE(moved(graph, atoms, symmetry, to) == moved(graph, atoms, symmetry, 0));
        return true;
    } catch (const dsl::AsymmetryError&) {
        return false;
    }
}

}  // namespace

TEST_CASE("branches and functions have a motion only where it is shown that they keep it") {
    const auto has_motion = [](const std::string& body) {
        const dsl::SourceFile source{"a.sched", "algorithm a all_reduce(x) over g {" + body + "}"};
        const dsl::ast::File file = dsl::parse(source);
        const dsl::Topology topology = dsl::grid_topology("6");
        dsl::Library library(std::vector<std::string>{});
        dsl::SymmetryFinder finder(topology);
        try {
            dsl::elaborate({nullptr, &file.algorithms.at(0), {}, "a"}, library, topology,
                           {0, 0, {}, {}, {}, &finder});
            return true;
        } catch (const dsl::AsymmetryError&) {
            return false;
        }
    };
    CHECK(has_motion("if g.size > 2 each r in g x[r] : r +> r + 1"));
    CHECK(has_motion("let n = if g.size == 6 then 2 else 1 each r in g x[r] : r +> r + n"));
    CHECK(has_motion("each r in g, j in 1 ..< 3 { if j == 1 x[r] : r +> r + j else x[r] : r +> r - j }"));
    CHECK(has_motion("each r in g, j in 1 ..< 3 x[r] : r +> (if j == 1 then r + 1 else r + 1)"));
    CHECK(has_motion("each r in g let q = r + 2 where (q - r) mod g.size == 2 x[r] : r +> q") ==
          has_motion("each r in g where (r + 2 - r) mod g.size == 2 x[r] : r +> r + 2"));
    CHECK(has_motion("let f(i) = i + 1 each r in g x[r] : r +> r + f(0)"));
    CHECK_FALSE(has_motion("each r in g { if r == 0 x : r +> r + 1 }"));
    CHECK_FALSE(has_motion("each r in g if r == 0 {} else x : r +> r + 1"));
    CHECK_FALSE(has_motion("each r in g x[r] : r +> (if r == 0 then r + 1 else r + 2)"));
    CHECK_FALSE(has_motion("each r in g let n = if r == 0 then 1 else 2 x[r] : r +> r + n"));
    CHECK_FALSE(has_motion("each r in g let n = r where n == 0 x[r] : r +> r + 1"));
    CHECK_FALSE(has_motion("each r in g let f(i) = i + r x[r] : r +> f(1)"));
    CHECK_FALSE(has_motion("each r in g { let f(i) = i * r x[r] : r +> r + 1 + f(1) }"));
    CHECK_FALSE(has_motion("let f(i) = i * i each r in g x[r] : r +> r + f(r)"));
    CHECK_FALSE(has_motion("each r in g x[r] : r +> r + (r & 1) + 1"));
    CHECK_FALSE(has_motion("each r in g x[r] : r +> r + 1 + (r >> 1)"));
    CHECK_FALSE(has_motion("if g.size == 6 x : 0 +> 1"));
}

TEST_CASE("a motion of the data that the finder leaves does not change which pieces move where") {
    int found = 0, refused = 0;
    for (unsigned seed = 0; seed < test::in_long_form(60000u, 20000u); ++seed) {
        Writer writer(seed);
        const std::string text = writer.exchange();
        const dsl::Topology topology =
            dsl::grid_topology(writer.one_of({"2", "3", "4", "5", "6", "8", "2x2", "2x3"}));
        const dsl::SourceFile source{"a.sched", text};
        dsl::Library library(std::vector<std::string>{});
        try {
            const dsl::ast::File file = dsl::parse(source);
            const dsl::Runnable runnable{nullptr, &file.algorithms.at(0), {}, "a"};
            const dsl::StepGraph graph = dsl::elaborate(runnable, library, topology, {});
            dsl::SymmetryFinder finder(topology);
            dsl::elaborate(runnable, library, topology, {0, 0, {}, {}, {}, &finder});
            INFO(text << " on " << topology.name);
            (moves_data(finder, graph) ? found : refused) += !graph.steps.empty();
        } catch (const dsl::AsymmetryError&) {
            ++refused;
        } catch (const dsl::DiagnosticError&) {  // stretches of different lengths, a slice out of range
        }
    }
    INFO(found << " found, " << refused << " refused");
    CHECK(found > test::in_long_form(300, 100));
    CHECK(refused > test::in_long_form(300, 100));
}

TEST_CASE("a motion that the finder leaves does not change the transfers") {
    int found = 0, found_in_branches = 0, found_with_lets = 0, found_with_data = 0, refused = 0;
    for (unsigned seed = 0; seed < test::in_long_form(20000u, 8000u); ++seed) {
        Writer writer(seed);
        const std::string text = writer.algorithm();
        const dsl::Topology topology =
            dsl::grid_topology(writer.one_of({"2", "3", "4", "5", "6", "8", "2x2", "2x3", "4x2", "1x4"}));
        const dsl::SourceFile source{"a.sched", text};
        dsl::Library library(std::vector<std::string>{});
        try {
            const dsl::ast::File file = dsl::parse(source);
            const dsl::Runnable runnable{nullptr, &file.algorithms.at(0), {}, "a"};
            const dsl::StepGraph graph = dsl::elaborate(runnable, library, topology, {});
            dsl::SymmetryFinder finder(topology);
            const dsl::StepGraph own =
                dsl::elaborate(runnable, library, topology, {0, 0, {}, {}, {}, &finder});
            ++found;
            found_in_branches += text.find("if ") != std::string::npos;
            found_with_lets += text.find(" let a =") != std::string::npos;
            const dsl::Symmetry symmetry = finder.found();
            for (Rank to = 1; to < graph.ranks; ++to) {
                INFO(text << " on " << topology.name << " to " << to);
                REQUIRE(moved(graph, topology, symmetry, to) == moved(graph, topology, symmetry, 0));
            }
            INFO(text << " on " << topology.name);
            found_with_data += moves_data(finder, graph);
        } catch (const dsl::AsymmetryError&) {
            ++refused;
        } catch (const dsl::DiagnosticError&) {  // a slice out of range, a division by 0
        }
    }
    CHECK(found > test::in_long_form(150, 60));
    CHECK(found_in_branches > test::in_long_form(20, 8));
    CHECK(found_with_lets > test::in_long_form(20, 8));
    CHECK(found_with_data > test::in_long_form(80, 30));
    CHECK(refused > test::in_long_form(300, 120));
}
