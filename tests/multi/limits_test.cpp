// Ranks with too low limits: the failure of one of them ends all, with the same status and text.
#include <stdlib.h>

#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

constexpr int transport = -5, peer_lost = -6, out_of_memory = -9, io = -11;

// The report of limited_rank about the last call that a rank reached.
struct Outcome {
    std::string call;
    int status = 1;
    std::string text = {};
};

// By rank. One that is quick may fail while the others still return from their first call: then that fails.
std::vector<Outcome> run_limited(const Words& arguments, const std::string& timeout_ms = "8000",
                                 const hocket::test::Process::Environment& more = {},
                                 std::string* output = nullptr) {
    Words command{HOCKET_RUN, "-n", "3", "--grace", "10", "--timeout", "25", HOCKET_LIMITED_RANK};
    command.insert(command.end(), arguments.begin(), arguments.end());
    auto environment = more;
    environment["HOCKET_TIMEOUT_MS"] = timeout_ms;
    const auto result = hocket::test::run(command, 30s, environment);
    INFO(result.out << result.err);
    REQUIRE(result.in_time);
    if (output) *output = result.out;
    std::vector<Outcome> outcomes;
    for (const char* rank : {"[0] ", "[1] ", "[2] "}) {
        const auto lines = hocket::test::lines_with_prefix(result.out, rank);
        REQUIRE(!lines.empty());
        const std::string& line = lines.back();
        const auto first = line.find(' '), second = line.find(' ', first + 1);
        REQUIRE(second != std::string::npos);
        outcomes.push_back({line.substr(0, first), std::stoi(line.substr(first + 1, second - first)),
                            line.substr(second + 1)});
    }
    return outcomes;
}

void check_same(const std::vector<Outcome>& outcomes, int status, const std::string& reason) {
    for (const Outcome& outcome : outcomes) {
        CAPTURE(outcome.call, outcome.text);
        CHECK(outcome.status == status);
        CHECK_THAT(outcome.text, Contains(reason));
        if (status == 0) CHECK(outcome.call == "all_reduce");
    }
}

}  // namespace

TEST_CASE("a rank that is short of descriptors fails as all do, wherever they run out") {
    // 0 to 2 are open, and rank 0's listener.
    for (const char* rank : {"0", "1"})
        for (int descriptors = rank[0] == '0' ? 6 : 4; descriptors < 15; ++descriptors) {
            CAPTURE(rank, descriptors);
            const auto outcomes = run_limited({"create", rank, "descriptors", std::to_string(descriptors)});
            const int status = outcomes[0].status;
            CHECK(status != peer_lost);
            check_same(outcomes, status, status == 0 ? "" : "many open files");
        }
}

TEST_CASE("rank 0 with a descriptor for one rank alone: all end with the same status, and are told why") {
    check_same(run_limited({"create", "0", "descriptors", "5"}, "60000"), transport,
               "rank 0 cannot take all connections: Too many open files (this process may have 5");
}

TEST_CASE("rank 0 without a descriptor for any rank can tell no other") {
    const auto outcomes = run_limited({"create", "0", "descriptors", "4"}, "2000");
    CHECK(outcomes[0].status == transport);
    CHECK_THAT(outcomes[0].text, Contains("this process may have 4"));
    for (const int rank : {1, 2}) {
        CHECK(outcomes[rank].status != 0);
        CHECK_THAT(outcomes[rank].text, Contains("rank 0"));
    }
}

TEST_CASE("ranks without descriptors for their connections say at once how many there may be") {
    // With 60 s to join, those that waited would still run when the job is ended.
    for (const char* descriptors : {"12", "13", "14"}) {
        CAPTURE(descriptors);
        const auto outcomes = run_limited({"create", "-1", "descriptors", descriptors}, "60000",
                                          {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}});
        const int status = outcomes[0].status;
        // A limit that is enough for the connections may not be for the schedules, which are read next.
        const std::string reason =
            status == io ? "Too many open files; raise the limit (ulimit -n)"
                         : std::string("this process may have ") + descriptors + ": raise the limit";
        check_same(outcomes, status, status == 0 ? "" : reason);
    }
}

TEST_CASE("ranks whose address space is short for what their host shares end with the same status") {
    for (const char* left : {"0", "12000000", "50000000"})
        for (const char* rank : {"-1", "0", "1"}) {
            CAPTURE(left, rank);
            check_same(run_limited({"create", rank, "addresses_left", left}), out_of_memory, "address space");
        }
}

TEST_CASE("a rank that has no addresses for what the others use ends the operation on all, with the reason") {
    const char* rank = GENERATE("0", "1", "-1");
    CAPTURE(rank);
    const auto outcomes = run_limited({"all_reduce", rank, "addresses_left", "100000000", "104857600"});
    check_same(outcomes, out_of_memory, "cannot map 128 MiB more of the shared memory of this host's ranks");
    for (const Outcome& outcome : outcomes) {
        CHECK(outcome.call == "all_reduce");
        CHECK_THAT(outcome.text, Contains("address space limit of this process (ulimit -v)") &&
                                     Contains("Raise the limit") && Contains(" cannot go on: "));
    }
}

TEST_CASE("a rank that gets no shared memory for want of addresses hears that alone, and goes on") {
    std::string output;
    const auto outcomes =
        run_limited({"alloc", "1", "addresses_left", "130000000", "68157440"}, "8000", {}, &output);
    check_same(outcomes, 0, "");
    CHECK(hocket::test::lines_with_prefix(output, "[0] alloc 0").size() == 1);
    const auto refused =
        hocket::test::lines_with_prefix(output, "[1] alloc " + std::to_string(out_of_memory));
    REQUIRE(refused.size() == 1);
    CHECK_THAT(refused[0], Contains("address space limit of this process (ulimit -v)"));
}

TEST_CASE("what one rank cannot read for a plan ends the operation on all, with the reason") {
    const char* provider = GENERATE("", "tcp");
    const char* rank = GENERATE("0", "1");
    CAPTURE(provider, rank);
    check_same(run_limited({"all_reduce", rank, "descriptors", "3"}, "20000",
                           {{"HOCKET_PROVIDER_FOR_ALL", provider}}),
               io, "cannot read the folder " HOCKET_SCHEDULES ": Too many open files");
}

TEST_CASE("a rank whose working folder was removed does what the others do") {
    for (const char* stage : {"create", "all_reduce"}) {
        char folder[] = "/tmp/hocket-limits-XXXXXX";
        REQUIRE(mkdtemp(folder) != nullptr);
        check_same(run_limited({stage, "1", "folder", folder}), 0, "");
    }
}
