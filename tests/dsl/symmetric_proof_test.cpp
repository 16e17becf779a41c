// Proofs by the steps of one rank, compared with those that follow every rank.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/proof/verify.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using dsl::Rank;

namespace {

// Random compositions of algorithms over levels: right ones, and such as forget a level, take one twice, or
// use an algorithm that is nearly right.
class Writer {
  public:
    explicit Writer(unsigned seed) : random_(seed) {}

    unsigned up_to(unsigned n) { return random_() % n; }
    std::string one_of(std::vector<std::string> texts) {
        return texts[up_to(static_cast<unsigned>(texts.size()))];
    }

    std::string topology() {
        return one_of({"2",   "3",   "4",   "5",   "6",   "8",     "9",     "16",    "2x2", "2x3",
                       "3x2", "4x2", "2x4", "3x3", "4x4", "2x2x2", "2x3x2", "3x2x2", "1x4", "4x1x2"});
    }
    std::string text(std::size_t levels) {
        levels_ = levels;
        if (up_to(8) == 0) return one_of({"reduce_scatter", "all_gather"}) + " " + by_rank();
        if (up_to(6) == 0) return "all_to_all " + exchange();
        return "all_reduce " + composition();
    }

  private:
    // Of a collective in which x is divided by rank.
    std::string by_rank() { return "x over world using " + algorithm(); }

    std::string exchange() {
        if (up_to(2) == 0) return "x over world using " + exchanging();
        std::string text;
        for (const std::size_t level : order())
            text += fmt::format("{}x over levels[{}] using {}", text.empty() ? "" : "\n    all_to_all ",
                                level, exchanging());
        return text.empty() ? "x over world using direct" : text;
    }
    std::string exchanging() {
        return one_of({"direct", "direct", "pairwise", "pairwise", "bruck", "mistaken", "astray", "halfway"});
    }

    std::string algorithm() {
        if (up_to(9) == 0) return "wrapped";
        if (up_to(4) == 0) return one_of({"off", "late", "twice", "swapped", "whole"});
        return one_of({"ring", "ring", "direct", "direct", "rotated", "halved", "crossed"});
    }

    std::vector<std::size_t> order() {
        std::vector<std::size_t> order(levels_);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        if (up_to(12) == 0) order.pop_back();
        return order;
    }

    // Divides the buffer in another way for each level.
    std::string level_by_level(const std::string& y, const std::vector<std::size_t>& levels) {
        std::string text;
        for (const std::size_t level : levels)
            text += fmt::format(
                "    reduce_scatter {0} over levels[{1}] using {2}\n    all_gather {0} over levels[{1}] "
                "using {3}\n",
                y, level, algorithm(), algorithm());
        return text;
    }

    std::string composition() {
        const unsigned parts = up_to(3) == 0 ? 1 + up_to(3) : 1;
        std::string text;
        if (up_to(6) == 0)
            return fmt::format(
                "    reduce_scatter x over world using {}\n    all_gather x over world using {}\n",
                algorithm(), algorithm());
        for (unsigned part = 0; part < parts; ++part) {
            const std::vector<std::size_t> scatters = order();
            std::vector<std::size_t> gathers = scatters;
            if (up_to(6) == 0)
                std::shuffle(gathers.begin(), gathers.end(), random_);
            else
                std::reverse(gathers.begin(), gathers.end());
            const std::string y = parts == 1 ? "x" : fmt::format("y{}", part);
            if (parts > 1) text += fmt::format("    let {} = x.part({} of {})\n", y, part, parts);
            if (up_to(5) == 0) {
                text += level_by_level(y, scatters);
                continue;
            }
            const std::size_t reduced = up_to(4) == 0 && scatters.size() > 1 ? scatters.back() : levels_;
            for (const std::size_t level : scatters)
                text += level == reduced ? fmt::format("    all_reduce {} over levels[{}] using {}\n", y,
                                                       level, one_of({"all", "all", "around", "missing"}))
                                         : fmt::format("    reduce_scatter {} over levels[{}] using {}\n", y,
                                                       level, algorithm());
            for (const std::size_t level : gathers)
                if (level != reduced)
                    text +=
                        fmt::format("    all_gather {} over levels[{}] using {}\n", y, level, algorithm());
        }
        return text;
    }

    std::mt19937 random_;
    std::size_t levels_ = 1;
};

// The algorithms that the compositions name: right ones, then those with a fault.
constexpr const char* algorithms = R"(
algorithm ring reduce_scatter(x) over g { for s in 1 ..< g.size  each r in g  x[r - s] : r +> r + 1 }
algorithm ring all_gather(x) over g { for s in 0 ..< g.size - 1  each r in g  x[r - s] : r -> r + 1 }
algorithm direct reduce_scatter(x) over g { each r in g, q in g where q != r  x[q] : r +> q }
algorithm direct all_gather(x) over g { each r in g, q in g where q != r  x[r] : r -> q }
algorithm rotated reduce_scatter(x) over g { for s in 1 ..< g.size  each r in g  x[r + s] : r +> r + s }
algorithm rotated all_gather(x) over g { for s in 1 ..< g.size  each r in g  x[r] : r -> r + s }
algorithm halved reduce_scatter(x) over g where pow2(g.size) {
    for s in log2(g.size) >.. 0  each r in g  x[block(r xor 2**s, 2**s)] : r +> r xor 2**s
}
algorithm halved all_gather(x) over g where pow2(g.size) {
    for s in 0 ..< log2(g.size)  each r in g  x[block(r, 2**s)] : r -> r xor 2**s
}
algorithm crossed reduce_scatter(x) over g where pow2(g.size) {
    each r in g, q in g where q xor r != 0  x[q] : r +> q
}
algorithm crossed all_gather(x) over g where pow2(g.size) { each r in g, q in g where q != r  x[q] : q -> r }
algorithm all all_reduce(x) over g { each r in g, q in g where q != r  x : r +> q }
algorithm around all_reduce(x) over g {
    for s in 1 ..< g.size  each r in g  x[r - s] : r +> r + 1
    for s in 0 ..< g.size - 1  each r in g  x[r - s] : r -> r + 1
}
algorithm direct all_to_all(x, y) over g { each r in g, q in g  x[q] : r -> y[r] : q }
algorithm pairwise all_to_all(x, y) over g {
    each r in g  x[r] : r -> y[r] : r
    for s in 1 ..< g.size  each r in g  x[r + s] : r -> y[r] : r + s
}
algorithm bruck all_to_all(x, y) over g {
    each r in g, j in g  x[r + j] : r -> y[r - j] : r
    for k in 0 ..< log2_up(g.size)
        each r in g, j in g where j / 2**k mod 2 == 1  y[r - j] : r -> y[r + 2**k - j] : r + 2**k
}
algorithm mistaken all_to_all(x, y) over g { each r in g, q in g  x[q] : r -> y[q] : q }
algorithm astray all_to_all(x, y) over g { each r in g, q in g  x[q + 1] : r -> y[r] : q }
algorithm halfway all_to_all(x, y) over g { for s in 0 ..< g.size - 1  each r in g  x[r + s] : r -> y[r] : r + s }
algorithm off reduce_scatter(x) over g { for s in 1 ..< g.size  each r in g  x[r - s + 1] : r +> r + 1 }
algorithm off all_gather(x) over g { for s in 0 ..< g.size - 1  each r in g  x[r - s + 1] : r -> r + 1 }
algorithm wrapped reduce_scatter(x) over g {
    for s in 1 ..< g.size  each r in g  x[r - s ..< r - s + 1] : r +> r + 1
}
algorithm wrapped all_gather(x) over g {
    for s in 0 ..< g.size - 1  each r in g  x[r - s] : r -> r + 1
    each r in g  x[(r + 1) mod g.size ..< (r + 3) mod g.size] : r -> r + 1
}
algorithm late reduce_scatter(x) over g { for s in 2 ..< g.size  each r in g  x[r - s] : r +> r + 1 }
algorithm late all_gather(x) over g { for s in 0 ..< g.size - 2  each r in g  x[r - s] : r -> r + 1 }
algorithm twice reduce_scatter(x) over g { for s in 0 ..< g.size  each r in g  x[r - s] : r +> r + 1 }
algorithm twice all_gather(x) over g { for s in 0 ..< 2  each r in g, q in g where q != r  x[r] : r -> q }
algorithm swapped reduce_scatter(x) over g { each r in g, q in g where q != r  x[r] : r +> q }
algorithm swapped all_gather(x) over g { each r in g, q in g where q != r  x[q] : r -> q }
algorithm whole reduce_scatter(x) over g { each r in g, q in g where q != r  x : r +> q }
algorithm whole all_gather(x) over g { each r in g, q in g where q != r  x : r -> q }
algorithm missing all_reduce(x) over g { each r in g, q in g where q == r + 1  x : r +> q }
)";

struct Verdict {
    bool is_right = false;
    dsl::Completion completion;
};

template <typename Prove>
Verdict verdict_of(Prove prove) {
    try {
        return {true, prove()};
    } catch (const dsl::AsymmetryError&) {
        throw;
    } catch (const dsl::DiagnosticError&) {
        return {};
    }
}

// What a step completes, as a region.
dsl::Region completed(const dsl::StepGraph& graph, const dsl::Completion& completion, std::size_t step) {
    const std::uint32_t of = completion.of(step);
    if (of == dsl::Completion::nothing) return {};
    return of == dsl::Completion::all ? graph.regions[graph.steps[step].target]
                                      : completion.parts[of - dsl::Completion::first_part];
}

enum class Found { refused, right, wrong };

// Compares both proofs of a schedule; refused: one of one rank is not possible.
Found check_same_proofs(const dsl::Runnable& runnable, const dsl::Library& library,
                        const dsl::Topology& topology, dsl::SymmetryFinder::Levels levels) {
    std::optional<dsl::StepGraph> laid_out;  // all ranks' steps, if they can be
    const Verdict full = verdict_of([&] {
        laid_out = dsl::elaborate(runnable, library, topology, {});
        return dsl::verify(*laid_out, "it");
    });
    const dsl::StepGraph graph = laid_out.value_or(dsl::StepGraph());
    try {
        dsl::SymmetryFinder finder(topology, levels);
        dsl::StepGraph own = dsl::elaborate(runnable, library, topology, {0, 0, {}, {}, {}, &finder});
        if (contract_of(own.collective).is_by_rank()) own.owned = dsl::owned_pieces(topology);
        const dsl::DataSymmetry symmetry = finder.found_with_data(own.buffers);
        const Verdict one = verdict_of([&] {
            const dsl::ProofBySymmetry proof = dsl::verify_by_symmetry(own, symmetry, "it");
            return laid_out ? proof.completion_of(graph, symmetry) : dsl::Completion();
        });
        REQUIRE(one.is_right == full.is_right);
        for (std::size_t step = 0; full.is_right && step < graph.steps.size(); ++step)
            REQUIRE(completed(graph, one.completion, step) == completed(graph, full.completion, step));
        return one.is_right ? Found::right : Found::wrong;
    } catch (const dsl::AsymmetryError&) {
        return Found::refused;
    }
}

}  // namespace

TEST_CASE("the proof by one rank's steps says what the proof by all ranks' steps says") {
    std::map<std::string, int> right, wrong;
    int refused = 0, as_one = 0;
    for (unsigned seed = 0; seed < test::in_long_form(20000u, 3000u); ++seed) {
        Writer writer(seed);
        const dsl::Topology topology = dsl::grid_topology(writer.topology());
        const std::string body = writer.text(topology.levels.size());
        const std::size_t space = body.find(' ');
        const std::string collective = body.substr(0, space);
        const std::string text =
            collective == "all_reduce"
                ? fmt::format("schedule s all_reduce(x) {{\n{}}}\n", body.substr(space + 1))
                : fmt::format("schedule s {}(x) {{ {} }}\n", collective, body);
        INFO(text << " on " << topology.name);
        const dsl::SourceFile source{"a.sched", text + algorithms};
        dsl::Library library(std::vector<std::string>{});
        const dsl::ast::File& file = library.add("a.sched", text + algorithms);
        const dsl::Runnable runnable = dsl::runnable_of(file.schedules.at(0));
        try {
            using Levels = dsl::SymmetryFinder::Levels;
            Found found = check_same_proofs(runnable, library, topology, Levels::by_themselves);
            if (found == Found::refused && topology.levels.size() > 1) {
                found = check_same_proofs(runnable, library, topology, Levels::as_one);
                as_one += found != Found::refused;
            }
            right[collective] += found == Found::right;
            wrong[collective] += found == Found::wrong;
            refused += found == Found::refused;
        } catch (const dsl::DiagnosticError&) {  // it cannot be laid out here
        }
    }
    for (const char* collective : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}) {
        INFO(collective << ": " << right[collective] << " right, " << wrong[collective] << " wrong");
        CHECK(right[collective] > test::in_long_form(300, 45));
        CHECK(wrong[collective] > test::in_long_form(100, 15));
    }
    CHECK(refused > test::in_long_form(500, 75));
    CHECK(as_one > test::in_long_form(200, 30));
}
