// The deep example learns, its gradients are those of its loss, and its bits are the same in all its ways to
// train.
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::test::Process;
using Words = std::vector<std::string>;
using nlohmann::json;

namespace {

std::string run_to_end(const Words& command) {
    const auto result = hocket::test::run(command, 110s);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return result.out;
}

Words deep_words(const Words& options) {
    Words command{HOCKET_DEEP_WORDS, "--max-words", "3000"};
    command.insert(command.end(), options.begin(), options.end());
    return command;
}

json report(Words options) {
    options.push_back("--report");
    return json::parse(run_to_end(deep_words(options)));
}

std::string checksum(const Words& options) {
    return report(options)["checksum"];
}

// Three steps are measured, then there is a plan.
const Words few_steps{"--steps", "8", "--batch", "24", "--measure", "3", "--report"};

Words with(Words options, const Words& more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
}

json by_ranks(int ranks, const Words& options) {
    Words command{HOCKET_RUN, "-n", std::to_string(ranks), "--timeout", "100"};
    const std::string text = run_to_end(with(command, deep_words(options)));
    return json::parse(text.substr(text.find('{')));
}

json by_service(int workers, const Words& options) {
    const Process::Environment secret{{"HOCKET_SECRET", "a secret"}};
    Process server({HOCKET_PARAMS, "serve", "--listen", "127.0.0.1:0", "--once"}, secret);
    REQUIRE(server.wait_for_output("serving at ", 20s));
    REQUIRE(server.wait_for_output("\n", 20s));
    const std::string text = server.output_after("serving at ");
    Process::Environment environment = secret;
    environment["HOCKET_PARAMS_ADDRESS"] = text.substr(0, text.find('\n'));
    std::vector<std::unique_ptr<Process>> processes;
    for (int i = 0; i < workers; ++i)
        processes.push_back(std::make_unique<Process>(
            deep_words(with(options, {"--workers", std::to_string(workers), "--number", std::to_string(i)})),
            environment));
    json first;
    for (auto& process : processes) {
        const auto result = process->finish(110s);
        INFO(result.out << result.err);
        REQUIRE(result.exit_code == 0);
        if (process == processes[0])
            first = json::parse(result.out);
        else
            CHECK(result.out == "");
    }
    CHECK(server.finish(20s).exit_code == 0);
    return first;
}

// The mean of the losses from step `first` to `last`.
double mean_loss(const std::string& text, int first, int last) {
    double sum = 0;
    for (int step = first; step <= last; ++step) {
        std::smatch match;
        REQUIRE(
            std::regex_search(text, match, std::regex("step " + std::to_string(step) + "  loss ([0-9.]+)")));
        sum += std::stod(match[1]);
    }
    return sum / (last - first + 1);
}

}  // namespace

TEST_CASE("the deep model's gradients are the slopes of its loss") {
    CHECK(run_to_end(deep_words({"--check-gradients"})).find("gradients are right") != std::string::npos);
}

TEST_CASE("the deep model learns in some dozens of steps") {
    const std::string text = run_to_end(deep_words({"--steps", "40", "--batch", "128"}));
    CHECK(mean_loss(text, 1, 1) < 3.5);  // guessing is ln 27 = 3.296
    CHECK(mean_loss(text, 31, 40) < 2.95);
}

TEST_CASE("the deep model's weights have the same bits from run to run, and others with another seed") {
    const Words options{"--steps", "3", "--batch", "32"},
        other{"--steps", "3", "--batch", "32", "--seed", "2"};
    CHECK(checksum(options) == checksum(options));
    CHECK(checksum(options) != checksum(other));
}

TEST_CASE("one process, ranks and a service give the same bits, with any plan") {
    for (const int workers : {2, 3}) {
        const json alone = report(with(few_steps, {"--workers", std::to_string(workers)}));
        CHECK(alone["way"] == "alone");
        const auto check = [&](const json& run, const std::string& way, std::size_t batches) {
            INFO(alone << "\n" << run);
            CHECK(run["checksum"] == alone["checksum"]);
            CHECK(run["way"] == way);
            CHECK(run["plans"] == 1);
            CHECK(run["iterations"] == 8);
            // With a service the plan is made an iteration later.
            CHECK(run["timed_steps"] == (way == "service" ? 4 : 5));
            if (batches > 0) CHECK(run["batches"] == batches);
            CHECK(run["ends"].size() == run["batches"].get<std::size_t>());
        };
        check(by_ranks(workers, few_steps), "ranks", 0);
        check(by_ranks(workers, with(few_steps, {"--method", "sequential"})), "ranks", 1);
        check(by_service(workers, with(few_steps, {"--method", "layers"})), "service", 14);
        check(by_service(workers, few_steps), "service", 0);
        const json forward =
            by_service(workers, with(few_steps, {"--method", "layers", "--pulls", "forward"}));
        check(forward, "service", 14);
        CHECK(forward["pull_ends"].size() == 14);
        const json backward = by_service(workers, with(few_steps, {"--pulls", "backward"}));
        check(backward, "service", 0);
        CHECK(backward["pull_ends"].empty());
    }
}

TEST_CASE("a profile that was saved is a plan from the first step on") {
    const hocket::test::TemporaryFolder folder;
    const std::string file = folder.path() + "/profile.json";
    const json saved = by_ranks(2, with(few_steps, {"--save-profile", file}));
    const json planned = by_ranks(2, with(few_steps, {"--profile", file}));
    CHECK(planned["timed_steps"] == 8);
    CHECK(planned["ends"] == saved["ends"]);
    CHECK(planned["checksum"] == saved["checksum"]);
}

TEST_CASE("a report has times and a checksum, and a table has every layer") {
    const std::string text =
        run_to_end(deep_words({"--steps", "3", "--batch", "7", "--workers", "3", "--report", "--layers"}));
    for (const char* const layer : {"embedding", "conv1", "conv10", "dense2", "output", "all"})
        CHECK_THAT(text, Catch::Contains(std::string("\n") + layer + " "));
    const json last = json::parse(text.substr(text.find('{')));
    CHECK(last["steps"] == 3);
    CHECK(last["workers"] == 3);
    CHECK(last["minimum_seconds"].get<double>() > 0);
    CHECK(last["minimum_seconds"].get<double>() <= last["median_seconds"].get<double>());
}

TEST_CASE("wrong options of the deep model are errors that say what to do") {
    const auto error_of = [](const Words& options) {
        const auto result = hocket::test::run(deep_words(options), 20s);
        CHECK(result.exit_code == 1);
        return result.err;
    };
    CHECK_THAT(error_of({"--workers", "33", "--batch", "32"}),
               Catch::Contains("deep_words: there are more workers than words in a batch"));
    CHECK_THAT(error_of({"--number", "0"}), Catch::Contains("--params"));
    CHECK_THAT(error_of({"--params", "127.0.0.1:1", "--workers", "2", "--number", "2"}),
               Catch::Contains("--number is below --workers"));
    CHECK_THAT(error_of({"--method", "best"}), Catch::Contains("mg_wfbp"));
    CHECK_THAT(error_of({"--pulls", "sideways"}), Catch::Contains("auto, backward and forward"));
    CHECK_THAT(error_of({"--profile", "/no/such/profile"}), Catch::Contains("/no/such/profile"));
    CHECK_THAT(error_of({"--steps", "1", "--batch", "2", "--save-profile", "/tmp/x"}),
               Catch::Contains("one process alone exchanges nothing"));
    const auto on_two =
        hocket::test::run(with({HOCKET_RUN, "-n", "2"}, deep_words({"--workers", "2", "--steps", "1"})), 20s);
    CHECK(on_two.exit_code == 1);
    CHECK_THAT(on_two.err, Catch::Contains("one process does the work of all"));
    CHECK_THAT(error_of({"--batch", "4000"}), Catch::Contains("take a smaller --batch"));
    CHECK_THAT(error_of({"--rate", "fast"}), Catch::Contains("--rate wants a number"));
    CHECK_THAT(error_of({"--steps", "0"}), Catch::Contains("--steps"));
    CHECK_THAT(error_of({"--no-such-option"}), Catch::Contains("--max-words N"));
    CHECK(run_to_end(deep_words({"--help"})).find("--report") != std::string::npos);
}
