// The example learns, and learns the same on four ranks as on one.
#include <cmath>
#include <regex>

#include "tests/multi/process.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

namespace {

// ranks_a_host: 0 if all of them share one.
std::string words(int ranks, Words options, int ranks_a_host = 0) {
    Words command{HOCKET_RUN, "-n", std::to_string(ranks), "--timeout", "100"};
    if (ranks_a_host > 0) {
        const std::string divisor = std::to_string(ranks_a_host);
        command.insert(command.end(),
                       {"sh", "-c", "HOCKET_HOST_ID=$((RANK / " + divisor + ")) exec \"$0\" \"$@\""});
    }
    command.push_back(HOCKET_WORDS);
    command.insert(command.end(), options.begin(), options.end());
    const auto result = hocket::test::run(command, 110s);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.out.find("hold the same") != std::string::npos);
    return result.out;
}

double figure(const std::string& text, const std::string& pattern) {
    std::smatch match;
    REQUIRE(std::regex_search(text, match, std::regex(pattern)));
    return std::stod(match[1]);
}

double final_loss(const std::string& text) {
    return figure(text, "final loss ([0-9.]+) after [0-9]+ steps");
}

Words small_for(int steps) {
    return {"--steps", std::to_string(steps), "--hidden", "48", "--max-words", "9000", "--batch", "25"};
}
const Words small = small_for(400);

Words with(Words options, const Words& more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
}

}  // namespace

TEST_CASE("training gives the same loss on any number of ranks") {
    const double alone = final_loss(words(1, small));
    CHECK(alone < 2.9);  // guessing is ln 27 = 3.296
    const double on_four =
        final_loss(words(4, with(small, {"--schedule", "blueconnect", "--topology", "2x2"})));
    CHECK(std::abs(on_four - alone) / alone < 1e-4);
    const double on_three = final_loss(words(3, small));  // 25 does not divide by 3
    CHECK(std::abs(on_three - alone) / alone < 1e-4);
}

TEST_CASE("what is not sent is not lost: sparse gradients learn nearly as dense ones do") {
    const auto loss = [&](const Words& more) {
        const std::string text = words(4, with(small, more), 2);
        CHECK(text.find(" on 2mx2h over memory, tcp") != std::string::npos);
        return final_loss(text);
    };
    const double dense = loss({});
    const double without_feedback = loss({"--gradients", "hitopk_lossy(0.01)"});
    CHECK(without_feedback > 1.05 * dense);
    for (const char* const schedule : {"hitopk(0.01)", "naive_ag(0.01)"})
        CHECK(loss({"--gradients", schedule}) < (dense + without_feedback) / 2);
    // Its momentum makes a step ten times as long. Everything is sent in the first step, 1 % from the 200th
    // on.
    CHECK(loss({"--gradients", "dgc", "--rate", "0.1", "--warm-up", "200"}) < without_feedback);
}

TEST_CASE("through a parameter service it learns what it learns with all_reduce") {
    const auto hash = [](const std::string& text) {
        std::smatch match;
        REQUIRE(std::regex_search(text, match, std::regex("hash ([0-9a-f]+)")));
        return match[1].str();
    };
    const Words fewer = small_for(hocket::test::in_long_form(400, 150)),
                few = small_for(hocket::test::in_long_form(400, 50));
    const double by_all_reduce = final_loss(words(4, fewer));
    const auto loss = [&](const std::string& params) {
        return final_loss(words(6, with(fewer, {"--params", params})));
    };
    CHECK(std::abs(loss("servers=2,staleness=0,tree=rack") / by_all_reduce - 1) < 0.01);
    CHECK(std::abs(loss("servers=2,staleness=2,tree=rack") / by_all_reduce - 1) < 0.02);
    // Sums are added in the order of the workers, as one process does it.
    const std::string alone = words(1, with(few, {"--workers", "4"}));
    CHECK(hash(words(6, with(few, {"--params", "servers=2,tree=direct"}))) == hash(alone));
    CHECK(hash(words(5, with(few, {"--params", "servers=1,tree=direct"}))) == hash(alone));
    CHECK(final_loss(words(6, with(small, {"--params", "servers=2,staleness=unbounded"}))) <
          2.9);  // guessing is 3.296
}

TEST_CASE("an option of the service that does not exist is named") {
    const auto failed = [](const char* params) {
        const auto result = hocket::test::run({HOCKET_WORDS, "--max-words", "100", "--params", params}, 60s);
        CHECK(result.exit_code == 1);
        return result.err;
    };
    CHECK_THAT(failed("servers=1,oak=3"), Catch::Contains("\"oak=3\""));
    CHECK_THAT(failed("staleness"), Catch::Contains("\"staleness\""));
    CHECK_THAT(failed("servers=two"), Catch::Contains("\"two\""));
    CHECK_THAT(failed("staleness=endless"), Catch::Contains("\"endless\"") && Catch::Contains("unbounded"));
    CHECK_THAT(failed("tree="), Catch::Contains("\"tree\""));
    CHECK_THAT(failed("servers=1,"), Catch::Contains("a part is empty: \"servers=1,\""));
    CHECK_THAT(failed(""), Catch::Contains("a part is empty: \"\""));
    CHECK_THAT(failed("servers=1,staleness=0,servers=1"), Catch::Contains("given twice: \"servers\""));
    CHECK_THAT(hocket::test::run({HOCKET_WORDS, "--help"}, 20s).out, Catch::Contains("degree N"));
}

TEST_CASE("options that do not go together are an error that says so, before a service is opened") {
    const auto error_of = [](Words options, const std::string& ranks = "1") {
        Words command{HOCKET_RUN, "-n", ranks, HOCKET_WORDS, "--max-words", "100"};
        command.insert(command.end(), options.begin(), options.end());
        const auto result = hocket::test::run(command, 60s);
        CHECK(result.exit_code == 1);
        return result.err;
    };
    CHECK_THAT(error_of({"--params", "servers=1", "--schedule", "ring"}),
               Catch::Contains("--schedule is for all_reduce: it does not go with --params"));
    CHECK_THAT(error_of({"--params", "servers=1", "--workers", "2"}, "3"),
               Catch::Contains("--workers is for one process without a service"));
    CHECK_THAT(error_of({"--workers", "33"}), Catch::Contains("--workers is more than --batch"));
    CHECK_THAT(error_of({"--workers", "2"}, "2"), Catch::Contains("one process does the work of all"));
}

TEST_CASE("a schedule that wants other things than a density, or none, is an error that says so") {
    const auto error_of = [](Words options) {
        options.insert(options.begin(), HOCKET_WORDS);
        const auto result = hocket::test::run(options, 20s);
        CHECK(result.exit_code == 1);
        return result.err;
    };
    CHECK(error_of({"--gradients", "lars"}).find("may take a density at each start, but nothing else") !=
          std::string::npos);
    CHECK(error_of({"--gradients", "naive_ag", "--warm-up", "5"}).find("--warm-up is for") !=
          std::string::npos);
}

TEST_CASE("another seed is another run") {
    CHECK(final_loss(words(1, small)) != final_loss(words(1, with(small, {"--seed", "2"}))));
}

TEST_CASE("the loss falls over the epochs") {
    const std::string text = words(2, {"--epochs", "3", "--max-words", "6000", "--hidden", "32"});
    CHECK(figure(text, "epoch 3  loss ([0-9.]+)") < figure(text, "epoch 1  loss ([0-9.]+)") - 0.2);
}

TEST_CASE("a missing word list is an error that says what to do") {
    const auto result =
        hocket::test::run({HOCKET_RUN, "-n", "2", HOCKET_WORDS, "--words", "/no/such/list"}, 20s);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("/no/such/list") != std::string::npos);
    CHECK(result.err.find("wamerican") != std::string::npos);
}

TEST_CASE("--help is no mistake") {
    const auto help = hocket::test::run({HOCKET_WORDS, "--help"}, 20s);
    CHECK(help.exit_code == 0);
    CHECK(help.out.find("--max-words N") != std::string::npos);
    CHECK(hocket::test::run({HOCKET_WORDS, "--no-such-option"}, 20s).exit_code == 1);
}
