// Collectives whose ranks have pieces of different counts.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

#include "runtime/engine/communicator.hpp"
#include "tests/runtime/engine/failures.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/runtime/engine/random_schedules.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using dsl::Share;
using engine::Communicator;
using engine::ExecutorKind;
using engine::Extent;
using engine::PlanChoice;
using test::expect;
using test::run_ranks;

namespace {

using Values = std::vector<std::int64_t>;
using Counts = std::vector<std::uint64_t>;

std::int64_t value(int rank, std::uint64_t i) {
    return static_cast<std::int64_t>(i * 2654435761u % 100'003) * (rank + 3);
}

std::int64_t factor_of(int rank) {
    return 5 - 3 * rank;
}

// A part of x.
struct Part {
    std::uint64_t begin, count;

    Part(Share share, const Layout& layout, int rank, int ranks)
        : begin(share == Share::own ? layout.piece_begin(rank, ranks) : 0),
          count(share == Share::none  ? 0
                : share == Share::own ? layout.piece_count(rank, ranks)
                                      : layout.count()) {}
};

// The expected elements of a part of x on this rank, which must be right there.
Values expected(const PlanChoice& choice, const Layout& layout, int ranks, const Part& part) {
    const dsl::Contract contract = contract_of(choice.collective);
    Values elements(part.count);
    if (contract.combines()) {
        for (int rank = 0; rank < ranks; ++rank) {
            const std::int64_t factor = choice.op.multiplies() ? factor_of(rank) : 1;
            for (std::uint64_t i = 0; i < part.count; ++i)
                elements[i] += value(rank, part.begin + i) * factor;
        }
        return elements;
    }
    int owner = contract.spreads() ? choice.root : 0;
    for (std::uint64_t i = 0; i < part.count; ++i) {
        while (!contract.spreads() && part.begin + i >= layout.piece_begin(owner + 1, ranks)) ++owner;
        elements[i] = value(owner, part.begin + i);
    }
    return elements;
}

constexpr std::int64_t untouched = -77;

void check(Communicator& comm, PlanChoice choice, const Counts& counts, bool in_place, bool in_window) {
    const Layout layout{std::span(counts)};
    choice.type = DataType::int64;
    choice.is_uneven = true;
    const dsl::Contract contract = contract_of(choice.collective);
    const bool is_root = comm.rank() == choice.root;
    const Part sent(contract.input.of(is_root), layout, comm.rank(), comm.size()),
        received(contract.output.of(is_root), layout, comm.rank(), comm.size());
    const std::string what = fmt::format("{} by '{}', {} elements, {}in place, {} window", contract.name,
                                         choice.schedule.value_or("-"), layout.count(),
                                         in_place ? "" : "not ", in_window ? "in the" : "in no");

    Values memory(2 * layout.count() + 2, untouched);
    std::int64_t* block = memory.data();
    if (in_window) {
        block =
            static_cast<std::int64_t*>(comm.connections().window().allocate(memory.size() * sizeof *block));
        std::fill_n(block, memory.size(), untouched);
    }
    std::int64_t *send = block + sent.begin,
                 *recv = block + received.begin + (in_place ? 0 : layout.count() + 1);
    Values input(sent.count);
    for (std::uint64_t i = 0; i < sent.count; ++i) input[i] = value(comm.rank(), sent.begin + i);
    std::copy(input.begin(), input.end(), send);
    const auto plan = comm.plans().cached_plan(choice, layout);
    comm.run(plan, send, recv, Extent(layout), static_cast<double>(factor_of(comm.rank())));
    const Values right = expected(choice, layout, comm.size(), received);
    const auto wrong = std::mismatch(right.begin(), right.end(), recv).first;
    expect(wrong == right.end(),
           [&] { return fmt::format("{}: element {} is wrong", what, wrong - right.begin()); });
    if (!in_place) {
        expect(std::equal(input.begin(), input.end(), send),
               [&] { return what + ": the input was written to"; });
        expect(recv[received.count] == untouched && recv[-1] == untouched,
               what + ": written beside the output");
    }
    if (in_window) comm.connections().window().release(block);
}

const std::vector<std::pair<Collective, std::vector<const char*>>> schedules{
    {Collective::all_gather, {"", "ring", "direct", "default"}},
    {Collective::reduce_scatter, {"", "ring", "direct", "default"}},
    {Collective::gather, {"", "binomial", "direct", "default"}},
    {Collective::scatter, {"", "binomial", "direct", "default"}}};

// Some ranks have nothing, one has most, all have nothing.
std::vector<Counts> counts_for(int ranks) {
    std::vector<Counts> all(5, Counts(static_cast<std::size_t>(ranks), 0));
    for (std::size_t rank = 0; rank < all[0].size(); ++rank) {
        all[0][rank] = rank % 3 == 1 ? 0 : 5 * rank + 1;
        all[1][rank] = rank == 1 ? test::in_long_form(70'001u, 35'001u) : rank;
        all[2][rank] = 1000 - rank;
        all[3][rank] = rank + 1 == all[0].size() ? 1 : 0;
    }
    return all;
}

void check_all(Communicator& comm) {
    unsigned number = 0;
    for (const Counts& counts : counts_for(comm.size())) {
        ++number;
        for (const auto& [collective, names] : schedules)
            for (const char* name : names)
                for (unsigned manner = 0; manner < (contract_of(collective).combines() ? 16 : 8);
                     manner += test::in_long_form(1u, 3u)) {  // by three: each side of each choice
                    if (number++ % test::in_long_form(1u, 2u) != 0) continue;
                    const int root =
                        contract_of(collective).has_root() ? static_cast<int>(manner) % comm.size() : 0;
                    check(
                        comm,
                        {.collective = collective,
                         .op = (manner & 8) != 0 ? ReduceOp::premul_sum : ReduceOp::sum,
                         .root = root,
                         .schedule = name,
                         .executor = (manner & 4) != 0 ? ExecutorKind::interpreter : test::compiled_if_any()},
                        counts, (manner & 1) != 0, (manner & 2) != 0);
                }
    }
}

// Schedules that are right as long as all pieces are equally long: each passes a piece through another one's
// place.
constexpr const char* passing = R"(
    algorithm passing all_gather(x) over g where g.size == 3 {
        each r in g  x[r] : r -> x[r - 1] : r
        each r in g  x[r - 1] : r -> x[r] : r + 1
        each r in g  x[r] : r -> r + 2
    }
    algorithm passing scatter(x, root) over g where g.size == 3 {
        x[root + 2] : root -> x[root + 1] : root + 1
        x[root + 1] : root + 1 -> x[root + 2] : root + 2
        x[root + 1] : root -> root + 1
    }
    algorithm passing gather(x, root) over g where g.size == 3 {
        x[root + 2] : root + 2 -> x[root + 1] : root
        x[root + 1] : root -> x[root + 2] : root
        x[root + 1] : root + 1 -> root
    }
    algorithm passing reduce_scatter(x) over g where g.size == 3 {
        each r in g, q in g where q != r  x[q] : r +> q
        each r in g  x[r] : r -> x[r + 1] : r
        each r in g  x[r + 1] : r -> x[r] : r
    })";

bool has_forms_by_rank(Collective collective) {
    const dsl::Contract contract = contract_of(collective);
    return contract.is_by_rank() && !contract.exchanges();
}

// Returns whether the schedule was right, for some counts. Otherwise it must have been refused for the pieces
// that it moves.
bool is_right(Communicator& comm, const test::RandomSchedule& schedule) {
    std::mt19937_64 random(schedule.seed);
    for (int start = 0; start < 4; ++start) {
        Counts counts;
        for (int rank = 0; rank < comm.size(); ++rank)
            counts.push_back(random() % 3 == 0 ? 0 : random() % (random() % 4 == 0 ? 20'000 : 50));
        const bool in_place = random() % 2 == 0, in_window = random() % 2 == 0;
        const PlanChoice choice{
            .collective = schedule.collective,
            .root = schedule.root,
            .schedule = schedule.schedule,
            .executor = random() % 2 == 0 ? ExecutorKind::interpreter : test::compiled_if_any()};
        try {
            check(comm, choice, counts, in_place, in_window);
        } catch (const Error& error) {
            expect(error.status() == Status::schedule, error.what());
            test::expect_contains(error.what(), {"with a count for each rank", "which has another length"});
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE("a layout of uneven pieces has a place for every boundary") {
    const Counts counts{3, 0, 10};
    const Layout layout{std::span(counts)};
    CHECK(layout.count() == 13);
    CHECK(layout.offset({0, 1}) == 0);
    CHECK(layout.offset({1, 6}) == 1);  // half of 3, rounded down
    CHECK(layout.offset({1, 3}) == 3);
    CHECK(layout.offset({1, 2}) == 3);
    CHECK(layout.offset({2, 3}) == 3);
    CHECK(layout.offset({5, 6}) == 8);
    CHECK(layout.offset({1, 1}) == 13);
    CHECK(layout.piece_count(2, 3) == 10);
    CHECK(Layout{std::span(counts)} == layout);
    CHECK_FALSE(Layout(13) == layout);
    const Counts huge{UINT64_MAX, 1};
    CHECK_THROWS_WITH(Layout{std::span(huge)}, Catch::Contains("more than 2^64 - 1"));
}

TEST_CASE("pieces of different counts are right in memory, by messages and by both") {
    for (const std::string hosts : {"a", "aaa", "aaaa", "abc", "aabb", "aabab"}) {
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 120}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            const auto comm = Communicator::create(engine::resolve({}));
            check_all(*comm);
        });
        INFO(hosts);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("ranks that give other counts are told so") {
    for (const char* hosts : {"aa", "ab"}) {
        const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "20000"}}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
            const auto comm = Communicator::create(engine::resolve({}));
            // Both have the same name.
            test::expect_contains(test::failure_of([&] {
                                      check(*comm, {.collective = Collective::all_gather},
                                            rank == 0 ? Counts{3, 4} : Counts{4, 3}, false, false);
                                  }),
                                  {"-8:", "all_gather_v #0 (", "7 elements", "with counts by rank 3, 4",
                                   "with counts by rank 4, 3"});
        });
        INFO(hosts);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("random schedules are right with counts by rank, or refused for what they move") {
    const test::TemporaryFolder folder;
    const test::Seeds seeds = test::seeds_from("HOCKET_UNEVEN_SEEDS", {1, test::in_long_form(250u, 30u)});
    auto all = test::random_schedules(folder.path(), seeds, 6);
    const std::string file = folder.path() + "/passing.sched";
    std::ofstream(file) << passing;
    std::size_t right = 0, refused = 0;
    for (const Collective collective : dsl::all_collectives)
        if (has_forms_by_rank(collective)) all[3].push_back({0, collective, file + ":passing", "3", 3, 1});
    for (const auto& [ranks, schedules] : all) {
        auto* const counted = static_cast<std::size_t*>(test::shared_memory(2 * sizeof(std::size_t)));
        const auto deadline_s = static_cast<int>(60 + schedules.size());
        const auto outcomes = run_ranks({ranks, {{"HOCKET_TIMEOUT_MS", "30000"}}, deadline_s}, [&](int rank) {
            for (const test::RandomSchedule& schedule : schedules) {
                if (!has_forms_by_rank(schedule.collective)) continue;
                setenv("HOCKET_TOPOLOGY", schedule.topology.c_str(), 1);
                // All ranks on one host, each on its own, or on two.
                const auto hosts =
                    static_cast<int>(schedule.seed % 3 == 1 ? ranks : 1 + schedule.seed % 3 / 2);
                setenv("HOCKET_HOST_ID", std::to_string(rank % hosts).c_str(), 1);
                const auto comm = Communicator::create(engine::resolve({}));
                const bool was_right = is_right(*comm, schedule);
                if (rank == 0) ++counted[was_right ? 0 : 1];
            }
        });
        INFO(ranks << " ranks");
        CHECK(test::problems(outcomes) == "");
        right += counted[0];
        refused += counted[1];
    }
    WARN(right << " schedules were right, " << refused << " refused");
    CHECK(right > 0);
    CHECK(refused >= 4);
}

TEST_CASE("without a name, a schedule that moves pieces is passed over where counts are by rank") {
    const test::TemporaryFolder folder;
    std::ofstream(folder.path() + "/passing.sched") << passing;
    const auto outcomes =
        run_ranks({3, {{"HOCKET_SCHEDULE_PATH", folder.path() + ":" HOCKET_SCHEDULES_DIR}}}, [](int) {
            const auto comm = Communicator::create(engine::resolve({}));
            for (const Collective collective : dsl::all_collectives)
                if (has_forms_by_rank(collective))
                    for (const Counts& counts : counts_for(3))
                        check(*comm, {.collective = collective}, counts, false, true);
        });
    CHECK(test::problems(outcomes) == "");
}
