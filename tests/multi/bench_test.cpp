// hocket-bench between real processes: every element of every size is right, with both executors.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "dsl/base/collective.hpp"
#include "runtime/base/types.hpp"
#include "tests/multi/process.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::dsl::all_collectives;

namespace {

using Words = std::vector<std::string>;

struct Case {
    int ranks;
    const char* topology;
    const char* schedule;
};

// All, or one of them by turns. Each rank compiles for each type, and tests/matrix has all as well.
std::string types_of(std::size_t number) {
    if (hocket::test::is_long_form()) return "all";
    const auto type = [](std::size_t i) { return hocket::all_types[i % std::size(hocket::all_types)]; };
    std::size_t i = 5 * number;
    while (!supports(hocket::ReduceOp::sum, type(i))) ++i;
    return std::string(name_of(type(i)));
}

// Runs it; the last two figures of each row's halves must be 0 wrong, and the exit code says the same.
nlohmann::json bench(int ranks, const std::string& collective, Words options,
                     const std::map<std::string, std::string>& environment = {}) {
    const std::string json_file = std::string(HOCKET_TEST_FOLDER) + "/bench_test.json";
    Words command{HOCKET_RUN,  "-n",  std::to_string(ranks),
                  "--timeout", "100", HOCKET_BENCH,
                  collective,  "-n",  "3",
                  "-w",        "1",   "--json",
                  json_file};
    command.insert(command.end(), options.begin(), options.end());
    std::remove(json_file.c_str());
    const auto result = hocket::test::run(command, 110s, environment);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.out.find("# Out of bounds values : 0 OK") != std::string::npos);
    CHECK(result.out.find("# Avg bus bandwidth    : ") != std::string::npos);
    std::ifstream stream(json_file);
    const auto json = nlohmann::json::parse(stream);
    CHECK(json["wrong"] == 0);
    CHECK(json["out_of_bounds"] == 0);
    CHECK(json["ranks"] == ranks);
    for (const auto& row : json["rows"])
        for (const char* way : {"out_of_place", "in_place"}) {
            if (row[way].is_null()) continue;  // not in place
            CHECK(row[way]["wrong"] == 0);
            CHECK(row[way]["time_us"] > 0);
            if (row[way]["min_us"].is_null()) continue;  // back to back
            CHECK(row[way]["min_us"] <= row[way]["p50_us"]);
            CHECK(row[way]["p50_us"] <= row[way]["p99_us"]);
            CHECK(row[way]["start_skew_us"] <= row[way]["p99_us"]);
        }
    return json;
}

}  // namespace

TEST_CASE("all_reduce is right on sizes that don't divide, with both executors") {
    const Case one = GENERATE(values<Case>({{6, "2x3", "blueconnect"},
                                            {6, "3x2", "blueconnect"},
                                            {9, "bcube(3,2)", "bml"},
                                            {8, "bcube(2,3)", "bml"}}));
    CAPTURE(one.ranks, one.topology, one.schedule);
    const auto json = bench(one.ranks, "all_reduce",
                            {"-b", "4", "-e", "256K", "-f", "7", "--schedule", one.schedule, "--topology",
                             one.topology, "--executor", "both"});
    CHECK(json["rows"].size() == 2 * 6);  // 4, 28, 196, 1372, 9604, 67228 bytes, each by both
    CHECK(json["rows"][0]["executor"] == "jit");
    CHECK(json["rows"][1]["executor"] == "interpreter");
    CHECK(json["rows"][5]["size_bytes"] == 196);
    CHECK(json["topology"] == one.topology);
    CHECK(json["schedule"].get<std::string>().rfind(one.schedule, 0) == 0);
    CHECK(json["cores"] > 0);
    CHECK(json["avg_busbw_gbs"]["jit"] > 0);
    CHECK(json["avg_busbw_gbs"]["interpreter"] > 0);
}

TEST_CASE("all types and operators are right") {
    const auto json = bench(3, "all_reduce", {"-b", "0", "-e", "4K", "-f", "9", "-d", "all", "-o", "all"});
    std::size_t rows = 0;
    for (const auto type : hocket::all_types) {
        std::set<std::size_t> counts;  // sizes that are rounded to the same one are a row together
        for (const std::size_t bytes : {0, 1, 9, 81, 729}) counts.insert(bytes / element_size(type));
        for (const auto op : hocket::all_ops) rows += supports(op, type) ? counts.size() : 0;
    }
    CHECK(json["rows"].size() == rows);
}

TEST_CASE("every collective is right, in and out of place") {
    const auto number = GENERATE(range(std::size_t{0}, std::size(all_collectives)));
    const std::string collective(name_of(all_collectives[number]));
    CAPTURE(collective);
    bench(5, collective, {"-b", "4", "-e", "300K", "-f", "11", "-d", types_of(number)});
    bench(1, collective, {"-b", "4", "-e", "1K", "-f", "11"});
}

TEST_CASE("with counts by rank every collective that has them is right, in and out of place") {
    const std::string collective =
        GENERATE("all_gather_v", "reduce_scatter_v", "gather_v", "scatter_v", "all_to_all_v");
    const std::string provider = GENERATE("", "tcp");
    CAPTURE(collective, provider);
    const std::string types = types_of(collective.size() + provider.size());
    Words options{"-b", "0", "-e", "300K", "-f", "11", "-d", types, "-r", "-1"};
    if (!provider.empty()) options.insert(options.end(), {"--provider-for-all", provider});
    bench(3, collective, options);
    const auto json = bench(5, collective, {"-b", "4", "-e", "100", "-i", "8"});
    CHECK(json["collective"] == collective);
    REQUIRE(json["rows"].size() == 13);  // 4, 12 ... 100 bytes: divided, not rounded to the ranks
    CHECK(json["rows"][12]["size_bytes"] == 100);
    CHECK(json["rows"][12]["count"] == 25);
    CHECK_FALSE(json["rows"][12]["in_place"].is_null());
    bench(1, collective, {"-b", "4", "-e", "1K", "-f", "11"});
}

TEST_CASE("with counts by rank the schedule that is named must exist for the collective") {
    const auto json = bench(4, "all_gather_v", {"-b", "4K", "-e", "4K", "--schedule", "ring"});
    CHECK(json["schedule"] == "ring");
    const auto result = hocket::test::run(
        {HOCKET_RUN, "-n", "2", "--timeout", "30", HOCKET_BENCH, "gather_v", "--schedule", "ring"}, 40s);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("ring") != std::string::npos);
    for (const std::string collective : {"all_gather", "all_to_all"})
        for (const char* counts : {"", "_v"}) {
            const auto none = hocket::test::run({HOCKET_RUN, "-n", "2", "--timeout", "30", HOCKET_BENCH,
                                                 collective + counts, "--schedule", "nosuch"},
                                                40s);
            INFO(collective << counts << ": " << none.err);
            CHECK(none.exit_code == 1);
            // A plan is of one collective; ranks that have no plans join with the schedule.
            const std::string expected =
                *counts != '\0' ? "cannot join the job: there is no schedule 'nosuch'"
                                : "cannot make the plan: there is no schedule 'nosuch' for " + collective;
            const std::string text = std::regex_replace(none.err, std::regex("\\s+"), " ");
            CHECK(text.find(expected) != std::string::npos);
            CHECK(none.out.empty());
        }
}

TEST_CASE("messages around a ring are right, out of place alone") {
    const std::string provider = GENERATE("", "tcp");
    const int ranks = GENERATE(1, 2, 3);
    CAPTURE(provider, ranks);
    Words options{"-b", "0", "-e", "300K", "-f", "11", "-d", "all"};
    if (!provider.empty() && ranks > 1) options.insert(options.end(), {"--provider-for-all", provider});
    const auto json = bench(ranks, "sendrecv", options);
    CHECK(json["collective"] == "sendrecv");
    CHECK(json["schedule"] == "none");
    const auto& row = json["rows"].back();
    CHECK(row["in_place"].is_null());
    CHECK(row["redop"] == "none");
    CHECK(row["root"] == -1);
    CHECK(row["out_of_place"]["busbw_gbs"] == row["out_of_place"]["algbw_gbs"]);
}

TEST_CASE("back to back is right too, and has no figures of single iterations") {
    bench(3, "sendrecv", {"-b", "4", "-e", "64K", "-f", "16", "--back-to-back"});
    const auto json = bench(3, "broadcast", {"-b", "4", "-e", "64K", "-f", "16", "--back-to-back"});
    CHECK(json["statistic"].get<std::string>().find("without barriers") != std::string::npos);
    for (const auto& row : json["rows"]) CHECK(row["in_place"]["min_us"].is_null());
}

TEST_CASE("sizes that round to the same are one row, those that round to nothing none") {
    const auto json = bench(3, "all_gather", {"-b", "4", "-e", "40", "-i", "4"});
    std::vector<int> sizes;
    for (const auto& row : json["rows"]) sizes.push_back(row["size_bytes"]);
    CHECK(sizes == std::vector<int>{12, 24, 36});
    const auto result = hocket::test::run(
        {HOCKET_RUN, "-n", "3", "--timeout", "30", HOCKET_BENCH, "all_gather", "-b", "4", "-e", "8"}, 40s);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("raise --maxbytes") != std::string::npos);
}

TEST_CASE("a predicted time stands beside each measured one: that of schedc predict") {
    const std::string network = "level l0 switch@100MB/s,50us";
    const auto json = bench(
        4, "all_reduce",
        {"-b", "4K", "-e", "1M", "-f", "16", "-t", "2x2", "--schedule", "ring", "--predict", "-N", network});
    REQUIRE(json["rows"].size() == 3);
    for (const auto& row : json["rows"]) {
        const auto said = hocket::test::run({HOCKET_SCHEDC, "predict", "ring", "-t", "2x2", "-N", network,
                                             "--json", "-b", std::to_string(row["size_bytes"].get<int>())},
                                            20s);
        const double seconds = nlohmann::json::parse(said.out)["seconds"];
        CHECK(seconds > 50e-6);
        CHECK(row["predicted_us"].get<double>() == Approx(seconds * 1e6));
    }
    const auto of_file = bench(2, "all_reduce",
                               {"-b", "4K", "-e", "4K", "--predict", "--schedule",
                                std::string(HOCKET_SCHEDULES) + "/ring.sched:ring"});
    CHECK(of_file["rows"][0]["predicted_us"] > 0);
    const auto table = hocket::test::run(
        {HOCKET_RUN, "-n", "2", HOCKET_BENCH, "all_gather", "-b", "64K", "-e", "64K", "-n", "1", "--predict"},
        60s);
    CHECK(table.out.find("predicted  ratio") != std::string::npos);
    CHECK(bench(2, "all_gather", {"-b", "64K", "-e", "64K"})["rows"][0].count("predicted_us") == 0);
}

TEST_CASE("what cannot be predicted is refused before it is measured") {
    const auto said = [](const Words& options) {
        Words command{HOCKET_RUN, "-n", "2", HOCKET_BENCH};
        command.insert(command.end(), options.begin(), options.end());
        const auto result = hocket::test::run(command, 60s);
        CHECK(result.exit_code != 0);
        CHECK(result.out.find("busbw") == std::string::npos);
        return result.err;
    };
    CHECK(said({"sendrecv", "--predict"}).find("sendrecv has no prediction") != std::string::npos);
    CHECK(said({"all_reduce", "--predict", "-N", "hypercube"}).find("there is no such kind of network") !=
          std::string::npos);
    CHECK(said({"all_reduce", "-N", "ring"}).find("--network requires --predict") != std::string::npos);
}

TEST_CASE("a JSON file that cannot be written ends the run before it measures") {
    const auto result = hocket::test::run({HOCKET_RUN, "-n", "2", "--timeout", "30", HOCKET_BENCH,
                                           "all_reduce", "--json", "/no/such/folder/x.json"},
                                          40s);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("/no/such/folder/x.json': No such file") != std::string::npos);
    CHECK(result.out.empty());
}

TEST_CASE("collectives with a root are right from or to each rank") {
    for (const auto collective : all_collectives) {
        if (!contract_of(collective).has_root()) continue;
        const std::string name(name_of(collective));
        CAPTURE(name);
        const auto json = bench(3, name, {"-b", "1000", "-e", "1000", "-r", "-1", "-d", "float64"});
        REQUIRE(json["rows"].size() == 3);
        CHECK(json["rows"][2]["root"] == 2);
        CHECK(json["rows"][2]["redop"] == (contract_of(collective).combines() ? "sum" : "none"));
    }
}

TEST_CASE("both providers are right") {
    const std::string provider = GENERATE("tcp", "ofi+tcp");
    CAPTURE(provider);
    const auto json =
        bench(4, "all_reduce", {"-b", "12", "-e", "2M", "-f", "13", "--provider-for-all", provider});
    CHECK(json["provider"] == (provider == "tcp" ? "tcp" : "tcp;ofi_rxm"));
}

TEST_CASE("the bench's own collectives do not run by HOCKET_SCHEDULE") {
    const std::string file = std::string(HOCKET_TEST_FOLDER) + "/two_levels_alone.sched";
    std::ofstream(file) << "schedule two all_reduce(x) where levels.count == 2 {\n"
                           "    all_reduce x over levels[0] using ring\n"
                           "    all_reduce x over levels[1] using ring\n"
                           "}\n";
    const std::map<std::string, std::string> by_file{{"HOCKET_SCHEDULE", file}};
    CHECK(bench(2, "broadcast", {"-b", "8", "-e", "1K"}, by_file)["rows"].size() > 1);
    const auto refused = hocket::test::run(
        {HOCKET_RUN, "-n", "2", "--timeout", "30", HOCKET_BENCH, "all_reduce"}, 40s, by_file);
    CHECK(refused.exit_code == 1);
    CHECK(refused.err.find(file) != std::string::npos);
}

TEST_CASE("a schedule with states is measured at each size, and one that rounds is said not to be exact") {
    const Words command{
        HOCKET_RUN, "-n", "2",   "--timeout", "100", HOCKET_BENCH, "all_reduce",     "-n", "2", "-b",
        "1K",       "-e", "64K", "-f",        "8",   "--schedule", "quantised(int4)"};
    Words unchecked = command;
    unchecked.insert(unchecked.end(), {"-c", "0"});
    const auto measured = hocket::test::run(unchecked, 110s);
    INFO(measured.out << measured.err);
    CHECK(measured.exit_code == 0);
    const auto checked = hocket::test::run(command, 110s);
    INFO(checked.out << checked.err);
    CHECK(checked.exit_code == 1);
    CHECK(checked.out.find("FAILED (a schedule that selects, rounds or updates is not exact: -c 0)") !=
          std::string::npos);
}

TEST_CASE("a schedule that takes numbers and a buffer at each start is measured with them") {
    const auto measured = [](const Words& given) {
        Words command{HOCKET_RUN,   "-n", "2", "--timeout", "100", HOCKET_BENCH,
                      "all_reduce", "-n", "2", "-b",        "1K",  "-e",
                      "8K",         "-f", "8", "-c",        "0",   "--schedule"};
        command.insert(command.end(), given.begin(), given.end());
        const auto result = hocket::test::run(command, 110s);
        INFO(result.out << result.err);
        return std::pair(result.exit_code, result.err);
    };
    CHECK(measured({"lars", "--parameter", "rate=0.1", "--buffers", "1"}).first == 0);
    CHECK(measured({"lamb", "--parameter", "left2=0.2", "--parameter", "rate=0.1", "--parameter",
                    "left1=1e-1", "--buffers", "1", "-d", "float64"})
              .first == 0);
    const auto refused = [&](const Words& given, const std::string& text) {
        const auto [code, err] = measured(given);
        CHECK(code != 0);
        CHECK_THAT(err, Catch::Contains(text));
    };
    refused({"lars", "--buffers", "1"}, "give --parameter rate=NUMBER");
    refused({"lars", "--parameter", "speed=1"}, "the schedule takes other numbers at a start: rate");
    refused({"ring", "--parameter", "rate=1"}, "the schedule takes no number at a start");
    refused({"lamb", "--parameter", "rate=1"}, "--parameter left1=NUMBER --parameter left2=NUMBER");
    refused({"lars", "--parameter", "rate=1", "--parameter", "rate=2"}, "--parameter rate is given twice");
    refused({"lars", "--parameter", "rate=fast"}, "'rate=fast' is not NAME=NUMBER");
    refused({"lars", "--parameter", "rate=1"}, "takes 1 further buffer at each start, and got 0");
}

TEST_CASE("a schedule that does not exist is an error that names it, on every rank") {
    const auto result = hocket::test::run({HOCKET_RUN, "-n", "2", "--timeout", "30", HOCKET_BENCH,
                                           "all_reduce", "--schedule", "no_such_schedule"},
                                          40s);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("no_such_schedule") != std::string::npos);
}

TEST_CASE("a wrong flag is refused once, before anything starts") {
    const auto result =
        hocket::test::run({HOCKET_RUN, "-n", "2", HOCKET_BENCH, "all_reduce", "-b", "many"}, 20s);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("many") != std::string::npos);
    CHECK(result.err.find("[1] ") == std::string::npos);
    const auto upside_down = hocket::test::run({HOCKET_BENCH, "all_reduce", "-b", "1M", "-e", "1K"}, 20s);
    CHECK(upside_down.exit_code == 2);
    CHECK(upside_down.err.find("above --maxbytes, 1 KiB") != std::string::npos);
}

// The tests' driver ends a process that touches memory of a device, and spoils the destination of a copy
// until the copy ends.
TEST_CASE("buffers on devices are measured, and checked from there") {
    for (const std::string collective : {"all_reduce", "all_gather", "scatter_v", "sendrecv"}) {
        const auto json = bench(3, collective, {"-b", "4", "-e", "300K", "-f", "97", "--memory", "device"},
                                {{"HOCKET_CUDA_DRIVER", HOCKET_FAKE_CUDA}});
        CHECK(json["memory"] == "device");
        CHECK(json["rows"].size() > 1);
    }
    const auto without =
        hocket::test::run({HOCKET_RUN, "-n", "2", HOCKET_BENCH, "all_reduce", "--memory", "device"}, 60s,
                          {{"HOCKET_CUDA_DRIVER", "/no/such/driver.so"}});
    INFO(without.err);
    CHECK(without.exit_code != 0);
    CHECK(without.err.find("--memory device: there is no CUDA driver here (/no/such/driver.so") !=
          std::string::npos);
}

// A kernel is measured by one process, beside a read and the standard library.
TEST_CASE("a kernel is measured beside what else there is, and its result is checked") {
    const std::string json_file = std::string(HOCKET_TEST_FOLDER) + "/bench_kernel.json";
    for (const std::string kernel : {"topk", "scatter_add", "norms"})
        for (const std::string type : {"float32", "float16", "bfloat16"}) {
            CAPTURE(kernel, type);
            const auto result =
                hocket::test::run({HOCKET_BENCH, kernel, "--elements", "300000", "--density", "0.001", "-d",
                                   type, "--threads", "2", "-n", "3", "--json", json_file},
                                  110s);
            INFO(result.out << result.err);
            REQUIRE(result.exit_code == 0);
            CHECK(result.out.find("one read of the elements") != std::string::npos);
            std::ifstream stream(json_file);
            const auto json = nlohmann::json::parse(stream);
            CHECK(json["kernel"] == kernel);
            CHECK(json["elements"] == 300000);
            CHECK(json["k"] == 300);
            CHECK(json["wrong"] == 0);
            CHECK(json["ms"] > 0);
            CHECK(json["read_ms"] > 0);
            CHECK(json["nth_element_ms"].is_null() == (kernel != "topk"));
            CHECK((json["torch_ms"].is_null() || json["torch_ms"] > 0));
        }
    const auto wrong = hocket::test::run({HOCKET_BENCH, "norms", "--residual"}, 20s);
    CHECK(wrong.exit_code == 2);
    CHECK(wrong.err.find("--residual and --thresholds are for topk") != std::string::npos);
}
