// A planner's cache must not change its results.
#include <fstream>

#include "dsl/planning/choose.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

dsl::PlanRequest of_size(dsl::PlanRequest request, std::uint64_t bytes) {
    request.bytes = bytes;
    return request;
}

void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
}

const std::string all_gather_by_ring = "schedule mine all_gather(x) { all_gather x over world using ring }";

}  // namespace

TEST_CASE("a planner's answers are those of one that was asked for nothing before") {
    dsl::Planner planner;
    std::vector<std::unique_ptr<dsl::CheckedSchedule>> expected_answers;  // are the same in both rounds
    for (int round = 0; round < 2; ++round) {
        std::size_t number = 0, compared = 0;
        for (const char* topology : {"2mx3h", "2x2x2", "4m/2"})
            for (const auto& [collective, schedule, root] : {std::tuple(Collective::all_reduce, "", 0),
                                                             {Collective::all_reduce, "blueconnect", 0},
                                                             {Collective::all_reduce, "flat(direct)", 0},
                                                             {Collective::all_reduce, "flat(ring)", 0},
                                                             {Collective::all_gather, "", 0},
                                                             {Collective::reduce, "", 1},
                                                             {Collective::gather, "default", 2},
                                                             {Collective::scatter, "", 3},
                                                             {Collective::broadcast, "", 1},
                                                             {Collective::broadcast, "default", 3}})
                for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1} << 26}) {
                    const auto request =
                        of_size(test::request(collective, schedule, topology, 0, root), bytes);
                    const auto actual = planner.check(request);
                    if (number++ % test::in_long_form(1, 3) != 0) continue;
                    if (round == 0) expected_answers.push_back(dsl::check_schedule(request));
                    const auto& expected = expected_answers[compared++];
                    INFO(name_of(collective) << " by '" << schedule << "' on " << topology);
                    CHECK(actual->name() == expected->name());
                    CHECK(actual->choices() == expected->choices());
                    CHECK(actual->fingerprint() == expected->fingerprint());
                    CHECK(actual->fingerprint() == dsl::fingerprint(actual->graph()));
                    CHECK(explain(actual->project(1)) == explain(expected->project(1)));
                }
    }
}

TEST_CASE("what is wrong is wrong each time") {
    dsl::Planner planner;
    const test::TemporarySchedule file(
        "schedule half all_reduce(x) { reduce_scatter x over world using ring }");
    for (int round = 0; round < 2; ++round) {
        const auto error = [&](const std::string& schedule, const char* topology) {
            return test::error_of(
                [&] { planner.check(test::request(Collective::all_reduce, schedule, topology)); });
        };
        CHECK_THAT(error(file.path(), "4"), Contains("missing the part of rank"));
        CHECK_THAT(error("halving", "6"), Contains("halving cannot run on topology 6"));
        CHECK_THAT(error("ring", "nowhere"), Contains("no topology 'nowhere'"));
        CHECK(error("ring", "6") == "");
    }
}

TEST_CASE("a schedule's file that has changed is read again, and is nothing to other schedules") {
    dsl::Planner planner;
    const test::TemporarySchedule file(all_gather_by_ring);
    const auto request = test::request(Collective::all_gather, file.path(), "4");
    const auto by_name = test::request(Collective::all_gather, "direct", "4");
    const auto before = planner.check(request);
    const std::string text = explain(before->project(0));
    CHECK(before->fingerprint() != planner.check(by_name)->fingerprint());
    // Its `direct` is not the library's.
    write(file.path(),
          "algorithm direct all_gather(x) over g {\n"
          "    for s in 1 ..< g.size   each r in g   x[r] : r -> r + s\n"
          "}\n"
          "schedule mine all_gather(x) { all_gather x over world using direct }");
    const auto after = planner.check(request);
    CHECK(after->fingerprint() != before->fingerprint());
    CHECK(after->fingerprint() != planner.check(by_name)->fingerprint());
    CHECK(planner.check(by_name)->fingerprint() == dsl::check_schedule(by_name)->fingerprint());
    CHECK(explain(before->project(0)) == text);
}

TEST_CASE("the folders are read once, whatever is planned") {
    const test::TemporaryFolder folder;
    folder.write("mine.sched", all_gather_by_ring);
    folder.write("ring.sched",
                 "algorithm ring all_gather(x) over g {\n"
                 "    for s in 0 ..< g.size - 1   each r in g   x[r - s] : r -> r + 1\n"
                 "}\n");
    const test::TemporarySchedule other(all_gather_by_ring);
    dsl::Planner planner;
    const auto check = [&](const std::string& schedule, const char* topology) {
        auto request = test::request(Collective::all_gather, schedule, topology);
        request.search_path = {folder.path()};
        return planner.check(request)->fingerprint();
    };
    const std::uint64_t on_4 = check("mine", "4"), on_6 = check("mine", "6");
    folder.write("ring.sched", "this is no schedule");
    CHECK(check("mine", "2x3") == on_6);
    CHECK(check(other.path(), "4") == on_4);
    write(other.path(), all_gather_by_ring + "\n");
    CHECK(check(other.path(), "4") == on_4);
}

TEST_CASE("a topology that stands in no file is checked without a look at the folders") {
    const std::string no_folder(5000, 'x');  // looking for it is an error
    const auto error = [&](const char* topology, dsl::Rank ranks) {
        return test::error_of([&] { dsl::find_topology(topology, {no_folder}, ranks); });
    };
    CHECK(error("", 6) == "");
    CHECK(error("2mx3h", 6) == "");
    CHECK_THAT(error("2x3", 5), Contains("topology 2x3 has 6 ranks, but the job has 5"));
    CHECK_THROWS_AS(error("bcube(2,2)", 4), dsl::ReadError);
}

TEST_CASE("what is laid out already is proved as it is") {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Topology topology = dsl::grid_topology("2x3");
    const auto blueconnect = dsl::find_runnable(library, "blueconnect", Collective::all_reduce);
    int layouts = 0;
    const dsl::Chooser chooser = [&](Collective collective, const dsl::Group&, dsl::Span call,
                                     std::vector<dsl::Choice>& choices) -> const dsl::ast::Algorithm& {
        layouts += choices.empty();
        choices.push_back({call, library.find_algorithm("ring", collective), ""});
        return *choices.back().algorithm;
    };
    const auto graph = std::make_shared<const dsl::StepGraph>(
        elaborate(blueconnect, library, topology, {0, std::nullopt, chooser}));
    REQUIRE(layouts == 1);
    const dsl::Proofs::Proof proof = dsl::Proofs(library, topology).prove(blueconnect, 0, chooser, graph);
    CHECK(layouts == 1);
    CHECK(proof.graph == graph);
    CHECK(proof.choices.size() == graph->choices.size());
    dsl::Proofs other(library, topology);
    CHECK(proof.fingerprint == other.prove(blueconnect, 0, chooser).fingerprint);
    CHECK(layouts == 2);
}

TEST_CASE("what is laid out already and wrong is refused in the words of its algorithm") {
    const test::TemporarySchedule file(
        "algorithm half all_gather(x) over g { each r in g where r > 0 x[r] : r -> 0 }\n"
        "schedule s all_gather(x) { all_gather x over world using half }");
    dsl::Library library({});
    const dsl::Topology topology = dsl::grid_topology("2x2");
    const auto wrong = dsl::find_runnable(library, file.path(), Collective::all_gather);
    const auto graph =
        std::make_shared<const dsl::StepGraph>(elaborate(wrong, library, topology, {0, std::nullopt, {}}));
    CHECK_THAT(test::error_of([&] { dsl::Proofs(library, topology).prove(wrong, 0, {}, graph); }),
               Contains("algorithm half all_gather on 4 ranks"));
}

TEST_CASE("a choice comes with its proof when it is made") {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Topology topology = dsl::grid_topology("2mx3h");
    dsl::Proofs proofs(library, topology);
    dsl::Choices choices(library, topology, proofs);
    for (const std::uint64_t bytes : {64, 1 << 26}) {
        std::optional<dsl::Proofs::Proof> proof, again;
        const std::string name = choices.schedule(Collective::all_reduce, 0, bytes, &proof).name;
        REQUIRE(proof);
        CHECK(choices.schedule(Collective::all_reduce, 0, bytes, &again).name == name);
        CHECK(!again);
        const auto named =
            dsl::check_schedule(of_size(test::request(Collective::all_reduce, name, "2mx3h"), bytes));
        CHECK(proof->fingerprint == named->fingerprint());
        CHECK(proof->fingerprint == dsl::fingerprint(*proof->graph));
    }
}

TEST_CASE("planning ends at its deadline, and what it had begun is done anew") {
    dsl::Planner planner;
    for (const char* schedule : {"", "direct", "blueconnect"}) {
        dsl::PlanRequest request = test::request(Collective::all_reduce, schedule, "64");
        request.deadline = dsl::Deadline(std::chrono::duration<double>(0));
        for (int attempt = 0; attempt < 2; ++attempt)
            CHECK_THROWS_WITH(planner.check(request), Contains("planning was not done within 0 s"));
        request.deadline = {};
        CHECK(planner.check(request)->name() == dsl::check_schedule(request)->name());
        CHECK(planner.check(request)->choices() == dsl::check_schedule(request)->choices());
    }
}
