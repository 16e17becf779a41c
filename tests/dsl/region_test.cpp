#include "dsl/graph/region.hpp"

#include <random>

#include "dsl/elaboration/solve.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket::dsl;

TEST_CASE("neighbouring regions meet for every count, and cover it") {
    std::mt19937_64 random(7);
    for (int round = 0; round < 2000; ++round) {
        const std::int64_t parts = 1 + static_cast<std::int64_t>(random() % 1000);
        const std::uint64_t count = random() >> (random() % 60 + 4);
        std::uint64_t last = 0;
        CHECK(Rational(0, parts).offset(count) == 0);
        CHECK(Rational(parts, parts).offset(count) == count);
        for (std::int64_t i = 1; i <= std::min<std::int64_t>(parts, 20); ++i) {
            const std::uint64_t offset = Rational(i, parts).offset(count);
            CHECK(offset >= last);
            last = offset;
        }
    }
}

TEST_CASE("fractions are exact, in lowest terms, and refuse to overflow") {
    CHECK(Rational(6, 8) == Rational(3, 4));
    CHECK(Rational(1, 3) + Rational(1, 6) == Rational(1, 2));
    CHECK(Rational(1, 3) * Rational(3, 5) == Rational(1, 5));
    CHECK(Rational(1, 3) - Rational(1, 2) == Rational(-1, 6));
    CHECK((Rational(1, 3) <=> Rational(333333333, 1000000000)) == std::strong_ordering::greater);
    CHECK_THROWS_AS(Rational(1, INT64_MAX) * Rational(1, INT64_MAX), std::overflow_error);
}

TEST_CASE("reduce-scatter narrows a view, all-gather widens it, in any order of levels") {
    const Topology topology = grid_topology("2x3");
    const Group inner = make_group(topology, {0}), outer = make_group(topology, {1});
    View view;
    CHECK(text_of(view.held(topology, 5)) == "[0, 1)");
    view.divide(topology, inner, {});
    view.scatter(inner);
    CHECK(text_of(view.held(topology, 5)) == "[1/2, 1)");
    view.divide(topology, outer, {});
    CHECK(text_of(view.chunks(topology, outer, 5, 0, 1)) == "[1/2, 2/3)");
    CHECK(text_of(view.chunks(topology, outer, 5, 0, 3)) == "[1/2, 1)");
    view.scatter(outer);
    CHECK(text_of(view.held(topology, 5)) == "[5/6, 1)");
    CHECK(view.division(inner) == View::Division::scattered);
    view.gather(inner);  // not the last one scattered: the held region has a gap
    CHECK(text_of(view.held(topology, 5)) == "[1/3, 1/2) + [5/6, 1)");
    view.gather(outer);
    CHECK(text_of(view.held(topology, 5)) == "[0, 1)");
    CHECK(view.division(inner) == View::Division::none);
}

TEST_CASE("a view by rank gives rank r the r-th piece, and parts divide each piece") {
    const Topology topology = grid_topology("2x3");
    const View own = View::by_rank(topology, true);
    for (Rank rank = 0; rank < 6; ++rank)
        CHECK(own.held(topology, rank) == Region{{Rational(rank, 6), Rational(rank + 1, 6)}});
    CHECK(text_of(own.part(1, 2, {}).held(topology, 2)) == "[5/12, 1/2)");
    CHECK(text_of(View().part(1, 2, {}).held(topology, 2)) == "[1/2, 1)");
    const Group world = world_group(topology);
    CHECK(text_of(View::by_rank(topology, false).chunks(topology, world, 0, 2, 5)) == "[1/3, 5/6)");
}

TEST_CASE("solving an endpoint finds exactly the iterations that trial finds") {
    const Rank size = 6;
    Scope scope;
    scope.add("g", make_group(flat_topology(size), {0}));
    scope.add("s", std::int64_t{4});
    const Evaluator evaluator(scope, nullptr);
    const std::vector<Domain> domains = {{"r", 0, 6}, {"q", -3, 9}};
    int solved = 0;
    for (const char* text : {"r", "q", "r + 1", "r - s", "s - r", "1 + q - 2", "r xor 2**2", "s xor r",
                             "-3 - q", "r * 2", "r + q", "q xor 1", "(r + 1) mod g.size", "(r + 1) mod 5"}) {
        const SourceFile file{"t", "algorithm a all_gather(x) over g where " + std::string(text) + " {}"};
        const ast::File tree = parse(file);
        const ast::Expression& endpoint = *tree.algorithms[0].where;
        for (Rank member = 0; member < size; ++member) {
            const auto solution = solve(endpoint, member, size, domains, evaluator);
            if (!solution) continue;
            ++solved;
            const Domain& domain = domains[solution->variable];
            std::vector<std::int64_t> tried;
            for (std::int64_t v = domain.begin; v < domain.end; ++v) {
                Scope with = scope;
                with.add(domain.name, v);
                if (wrap(Evaluator(with, nullptr).integer(endpoint), size) == member) tried.push_back(v);
            }
            INFO(text << " == " << member);
            CHECK(solution->values == tried);
        }
    }
    CHECK(solved == 10 * size);  // all but r * 2, r + q, xor over negative numbers, and mod 5
}
