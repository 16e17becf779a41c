// schedc as its users run it: its output, and its exit status.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

using hocket::test::Finished;

Finished schedc(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), HOCKET_SCHEDC);
    return hocket::test::run(arguments, 60s);
}

std::string library(const std::string& name) {
    return std::string(HOCKET_SCHEDULES) + "/" + name;
}

// A copy of the library's ring with one thing changed.
std::string changed_ring(const std::string& what, const std::string& by) {
    std::ifstream stream(library("ring.sched"));
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    const auto at = text.find(what);
    REQUIRE(at != std::string::npos);
    text.replace(at, what.size(), by);
    const std::string path = std::string(HOCKET_TEST_FOLDER) + "/changed_ring.sched";
    std::ofstream(path) << text;
    return path;
}

}  // namespace

TEST_CASE("check passes the library, with a line for each definition") {
    std::vector<std::string> arguments{"check"};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(HOCKET_SCHEDULES))
        if (entry.path().extension() == ".sched") arguments.push_back(entry.path());
    const Finished result = schedc(arguments);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK_THAT(result.out,
               Contains("algorithm ring reduce_scatter") && Contains("groups of 1 to 17, 32, 64"));
    CHECK_THAT(result.out,
               Contains("algorithm halving reduce_scatter") && Contains("groups of 1, 2, 4, 8, 16, 32, 64"));
    CHECK_THAT(result.out, Contains("schedule bml all_reduce") && Contains("4x2x3"));
}

TEST_CASE("check refuses a ring with one thing wrong, naming rank, chunk and line") {
    const std::string transfer = "x[r - s] : r +> r + 1";
    const auto refused = [](const std::string& path, const std::string& message) {
        const Finished result = schedc({"check", path});
        INFO(result.err);
        CHECK(result.exit_code == 1);
        CHECK_THAT(result.err, Contains("rank ") && Contains("chunk ") && Contains(message));
        CHECK_THAT(result.err, Contains("2 of 3 definitions refused"));
    };
    const std::string place = "changed_ring.sched:6:13: error: algorithm ring reduce_scatter on ";
    refused(changed_ring("each r in g\n", "each r in g where not (s == 1 and r == 2)\n"),
            place + "3 ranks: rank 1 ends with chunk 1 of 3 missing");
    refused(changed_ring(transfer, "{ " + transfer + "\n" + transfer + " }"), "a second time");
    refused(changed_ring(transfer, "x[r - s + 1] : r +> r + 1"),
            "rank 0 ends with chunk 0 of 2 missing the part of rank 1");
    refused(changed_ring(transfer, "x[r - s] : r -> r + 1"),
            place + "2 ranks: rank 0 ends with chunk 0 of 2 missing");
}

TEST_CASE("check says what operators calculate, and refuses those that cannot") {
    const std::string path = std::string(HOCKET_TEST_FOLDER) + "/operators.sched";
    std::ofstream(path) << "operator larger(u, v) commutative = select(u >= v, u, v)\n";
    const Finished right = schedc({"check", path});
    CHECK(right.exit_code == 0);
    CHECK_THAT(right.out, Contains("operator larger") && Contains("= select((a >= b), a, b)") &&
                              Contains("1 definition is right"));
    std::ofstream(path, std::ios::app) << "operator wrong(u, v) = u + w\n";
    const Finished wrong = schedc({"check", path});
    CHECK(wrong.exit_code == 1);
    CHECK_THAT(wrong.err, Contains(":2:28: error:") && Contains("1 of 2 definitions refused"));
}

TEST_CASE("check says what updates calculate, and refuses those that cannot") {
    const std::string path = std::string(HOCKET_TEST_FOLDER) + "/updates.sched";
    std::ofstream(path) << "update half(rate, part = 0.5) { w = w - rate * part * g }\n";
    const Finished right = schedc({"check", path});
    CHECK(right.exit_code == 0);
    CHECK_THAT(right.out, Contains("update half(1, 0.5)") && Contains("w = w - ((1 * 0.5) * g)") &&
                              Contains("1 definition is right"));
    std::ofstream(path, std::ios::app) << "update wrong(rate) { w = w - u }\n";
    const Finished wrong = schedc({"check", path});
    CHECK(wrong.exit_code == 1);
    CHECK_THAT(wrong.err, Contains(":2:30: error:") && Contains("1 of 2 definitions refused"));
}

TEST_CASE("check tries the groups that a condition asks for, however few the small ones are") {
    const std::string path = std::string(HOCKET_TEST_FOLDER) + "/radix3.sched";
    const auto condition = [](const std::string& size) {
        std::string text = size + " == 1";
        for (const char* power : {"3", "9", "27", "81"}) text += " or " + size + " == " + power;
        return text;
    };
    const auto file = [&](const std::string& distance) {
        std::ofstream(path) << "algorithm radix3 all_reduce(x) over g where " + condition("g.size") +
                                   " { for k in 0 ..< 4 each r in g, t in 1 ..< 3\n"
                                   "where 3 ** k < g.size x : r +> r + t * " +
                                   distance + " }\nschedule radix3 all_reduce(x) where " +
                                   condition("ranks") + " { all_reduce x over world using radix3 }";
    };
    file("3 ** k");
    const Finished right = schedc({"check", path});
    CHECK_THAT(right.out, Contains("algorithm radix3 all_reduce") && Contains("groups of 1, 3, 9, 27"));
    CHECK_THAT(right.out, Contains("schedule radix3 all_reduce") && Contains("on 1 3 9 27"));
    file("(k + 1) ** (k + 1)");  // 1, 4, ...: right on 3 and on 1 only
    CHECK_THAT(schedc({"check", path}).err, Contains("radix3 all_reduce on 9 ranks"));
}

TEST_CASE("a synthesized schedule is right, laid out, runs, and is predicted beside the bound") {
    const std::string path = std::string(HOCKET_TEST_FOLDER) + "/synthesized.sched";
    // Turns make one half of the first ring of the other; the second network has none.
    for (const std::string last : {"link 3 0 1GB/s 5us", "link 3 0 2GB/s 5us; link 0 2 1GB/s 5us"})
        for (const char* collective : {"all_gather", "all_reduce", "broadcast", "all_to_all"}) {
            const Finished made =
                schedc({"synthesize", collective, "-n", "4", "-N",
                        "link 0 1 4GB/s 5us; link 1 2 1GB/s 5us; link 2 3 4GB/s 5us;" + last, "-b", "64K",
                        "-o", path});
            INFO(collective << ": " << made.err);
            REQUIRE(made.exit_code == 0);
            CHECK_THAT(made.err, Contains("bound: ") && Contains(" times the bound)") &&
                                     Contains("the library's best: "));
            CHECK(schedc({"fmt", "--check", path}).exit_code == 0);
            for (const char* provider : {"", "tcp"}) {
                const Finished ran = hocket::test::run({HOCKET_RUN, "-n", "4", HOCKET_BENCH, collective, "-b",
                                                        "4", "-e", "64K", "-f", "97", "--schedule", path},
                                                       60s, {{"HOCKET_PROVIDER_FOR_ALL", provider}});
                INFO(provider << ran.out << ran.err);
                CHECK(ran.exit_code == 0);
            }
        }
}

TEST_CASE("synthesize tells when the library is faster") {
    bool is_told = false;
    for (const char* bytes : {"8", "64K", "1G"}) {
        const Finished made = schedc({"synthesize", "all_gather", "-n", "8", "-N", "torus(2,2,2)@100GB/s,1us",
                                      "-b", bytes, "-o", "/dev/null", "--seconds", "30"});
        INFO(made.err);
        const std::regex line(
            "predicted: ([0-9.]+ [a-z]+)[^\n]*\nthe library's best: ([0-9.]+ [a-z]+), by [^;\n]*(;?)");
        std::smatch match;
        REQUIRE(std::regex_search(made.err, match, line));
        const auto seconds = [](const std::string& text) {
            const std::string unit = text.substr(text.find(' ') + 1);
            return std::stod(text) * (unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : unit == "ns" ? 1e-9 : 1);
        };
        if (match[1] != match[2]) CHECK((seconds(match[2]) < seconds(match[1])) == (match[3] == ";"));
        is_told = is_told || match[3] == ";";
    }
    CHECK(is_told);  // 8 bytes, which the library brings in fewer messages
}

TEST_CASE("synthesize says what the bound is, and what is wrong") {
    const Finished bound =
        schedc({"synthesize", "all_gather", "-n", "64", "-N", "torus(8,8)@1GB/s", "-b", "64M", "--bound"});
    CHECK(bound.exit_code == 0);
    CHECK_THAT(bound.out,
               Contains("the worst cut is around ranks") && Contains("1 to 0, 7 to 0, 8 to 0, 56 to 0"));
    const std::string one_way = "link 0 1 3GB/s one way; link 1 2 2GB/s one way; link 2 0 5GB/s one way";
    CHECK_THAT(schedc({"synthesize", "all_gather", "-n", "3", "-N", one_way, "--bound"}).out,
               Contains("around ranks 0, 1\nwhose data leave it by 1 to 2\n"));
    CHECK_THAT(schedc({"synthesize", "reduce_scatter", "-n", "3", "-N", one_way, "--bound"}).out,
               Contains("around ranks 0, 2\nwhose results need what comes in by 1 to 2\n"));
    const auto refused = [](std::vector<std::string> words, const std::string& message) {
        words.insert(words.begin(), "synthesize");
        const Finished result = schedc(words);
        INFO(result.err);
        CHECK(result.exit_code == 1);
        CHECK_THAT(result.err, Contains(message));
    };
    refused({"gather", "-n", "4"}, "no schedule of gather can be synthesized");
    refused({"all_gather"}, "the number of ranks is missing");
    refused({"all_gather", "-n", "3", "-N", "link 0 1 1GB/s; link 1 2 wide"}, "<network>:1:26");
    refused({"all_gather", "-n", "64", "-N", "torus(8,8)@1GB/s", "--seconds", "0.000001"},
            "was not done within");
    // Before the search, which would take a minute.
    refused({"all_gather", "-n", "64", "-N", "torus(8,8)@1GB/s", "-o", "/nowhere/x.sched"},
            "/nowhere/x.sched cannot be written: there is no folder /nowhere");
    refused({"all_gather", "-n", "64", "-N", "torus(8,8)@1GB/s", "-o", "/tmp"},
            "/tmp cannot be written: it is a folder");
    CHECK_THAT(schedc({"synthesize", "all_reduce", "-n", "4", "-N", "torus(2,2)@1GB/s", "--bound"}).out,
               Contains("of all_reduce (a reduce_scatter, then an all_gather) on"));
}

TEST_CASE("planning that takes too long ends with the time, and with what it was doing") {
    const Finished result =
        schedc({"explain", "chain(600000)", "-c", "broadcast", "-t", "4", "--timeout", "1"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Contains("planning was not done within 1 s") && Contains("chain.sched:") &&
                               Contains("hint: "));
}

TEST_CASE("explain shows a rank's steps with their source lines") {
    const Finished result = schedc({"explain", "ring", "-n", "4", "-r", "1"});
    CHECK(result.exit_code == 0);
    CHECK_THAT(
        result.out,
        StartsWith(
            "rank 1 of 4: all_reduce by ring on 4, 15 operations\n    0  send     x[0, 1/4) of input to 2 "));
    CHECK_THAT(result.out, Contains("ring.sched:6") && Contains("ring.sched:12") &&
                               Contains("sends 1.5 x in 6 messages"));
    const Finished chosen = schedc({"explain", "blueconnect", "-t", "2x3"});
    CHECK_THAT(chosen.out, Contains("chosen: ") && Contains("reduce_scatter over l1 (3 ranks): ring"));
}

TEST_CASE("explain says how long a named schedule takes, as its rivals' choice does") {
    const std::string text = schedc({"explain", "-t", "2mx3h", "-b", "64K"}).out;
    const auto all = text.find("chosen: ");
    REQUIRE(all != std::string::npos);
    for (const std::string name : {"ring", "bml", "exchange", "double_tree"}) {
        const auto begin = text.find(" " + name + " ", all) + name.size() + 2;
        const std::string time = text.substr(begin, text.find(" us", begin) + 3 - begin);
        const Finished named = schedc({"explain", name, "-t", "2mx3h", "-b", "64K"});
        INFO(named.out);
        CHECK_THAT(named.out, Contains("\n64 KiB takes " + time + ", by estimate\n"));
    }
    CHECK_THAT(schedc({"explain", "ring", "-t", "2mx3h"}).out, !Contains("by estimate"));
}

TEST_CASE("explain emits every stage") {
    CHECK_THAT(schedc({"explain", "ring", "-e", "ast"}).out,
               Contains("for s in 1 ..< g.size") && Contains("x[(r - s)] : r +> (r + 1)"));
    CHECK_THAT(schedc({"explain", "ring", "-n", "2", "-e", "graph"}).out,
               Contains("phase   0  x[1/2, 1): 0 +> 1"));
    CHECK_THAT(schedc({"explain", "ring", "-n", "2", "-e", "dot"}).out,
               StartsWith("digraph schedule {") && Contains("style=dashed"));
    const auto json = nlohmann::json::parse(schedc({"explain", "bml", "-t", "bcube(3,2)", "-e", "json"}).out);
    CHECK(json["ranks"] == 9);
    CHECK(json["programs"].size() == 9);
    CHECK(json["programs"][4]["ops"].size() == 36);
    const Finished llvm =
        schedc({"explain", "direct", "-n", "3", "-e", "llvm", "-d", "float64", "-o", "max"});
    if (llvm.exit_code != 0) {
        CHECK_THAT(llvm.err, Contains("built without LLVM"));
        HOCKET_SKIP("this build has no JIT, so there is no machine code to show");
    }
    CHECK_THAT(llvm.out, Contains("combine3_float64_max"));
    CHECK_THAT(schedc({"explain", "direct", "-n", "3", "-e", "asm"}).out, Contains("combine3_float32_sum:"));
    const std::string ptx = schedc({"explain", "direct", "-n", "3", "-e", "ptx"}).out;
    CHECK_THAT(ptx, Contains(".entry hocket_plan("));
    // Small starts have another form: each rank reads a copy of all, and waits once.
    CHECK(schedc({"explain", "direct", "-n", "3", "-e", "ptx", "-b", "1M"}).out == ptx);
    CHECK(schedc({"explain", "direct", "-n", "3", "-e", "ptx", "-b", "8"}).out != ptx);
    for (const char* form : {"llvm", "asm", "ptx"})
        CHECK_THAT(schedc({"explain", "direct", "-n", "3", "-e", form, "-o", "band"}).err,
                   Contains("the operator band does not exist for float32"));
}

TEST_CASE("a density that is given at each start is that of the prediction, which says what it took") {
    const auto json = [](std::vector<std::string> more) {
        std::vector<std::string> arguments{"predict", "dgc", "-t", "2mx4h@1Gb/s", "-b", "64M", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return nlohmann::json::parse(schedc(arguments).out);
    };
    const auto bytes = [&](const nlohmann::json& of) { return of["levels"].back()["bytes"].get<double>(); };
    const double usual = bytes(json({}));
    CHECK(bytes(json({"--parameter", "density=0.01"})) == usual);
    CHECK(bytes(json({"--parameter", "density=0.001"})) == Approx(usual / 10).epsilon(0.01));
    const std::string text = schedc({"predict", "dgc", "-t", "2mx4h", "-b", "64M"}).out;
    CHECK_THAT(text,
               Contains("density is given at each start, and counts as 0.01: --parameter density=NUMBER"));
    // A sweep leaves schedules that do not take it as they are.
    const Finished swept = schedc(
        {"predict", "dgc", "ring", "-n", "4", "--sweep", "bytes=1M..2M", "--parameter", "density=0.1"});
    CHECK(swept.exit_code == 0);
    CHECK_THAT(swept.out, !Contains("counts as"));
    CHECK_THAT(schedc({"predict", "dgc", "ring", "-n", "4", "--sweep", "bytes=1M..2M"}).out,
               Contains("density is given at each start, and counts as 0.01"));
    CHECK_THAT(
        schedc({"predict", "dgc", "ring", "-n", "4", "--sweep", "bytes=1M", "--parameter", "rate=1"}).err,
        Contains("no schedule of the sweep takes a number 'rate'"));
    CHECK(json({})["parameters"]["density"] == 0.01);
    CHECK(json({})["assumed"].size() == 1);
    CHECK(json({"--parameter", "density=0.1"})["parameters"]["density"] == 0.1);
    CHECK(json({"--parameter", "density=0.1"})["assumed"].empty());
    const auto refused = [](const char* parameter) {
        return schedc({"predict", "dgc", "-n", "4", "-b", "64M", "--parameter", parameter}).err;
    };
    CHECK_THAT(refused("density=2"), Contains("density is 2, which is no density"));
    CHECK_THAT(refused("rate=1"), Contains("takes no number 'rate' at a start; it takes: density"));
    CHECK_THAT(refused("density"), Contains("is not NAME=NUMBER"));
}

TEST_CASE("what is asked wrongly is answered in words, and with exit code 1") {
    const auto answer = [](std::vector<std::string> arguments) {
        const Finished result = schedc(std::move(arguments));
        CHECK(result.exit_code == 1);
        return result.err;
    };
    CHECK_THAT(answer({"explain", "rnig", "-n", "4"}), Contains("there is no schedule 'rnig'"));
    CHECK_THAT(answer({"explain", "ring"}), Contains("the number of ranks is missing"));
    CHECK_THAT(answer({"explain", "ring", "-n", "4", "-r", "4"}),
               Contains("there is no rank 4: ranks are 0 to 3"));
    CHECK_THAT(answer({"explain", "ring", "-n", "4", "-t", "2x3"}), Contains("has 6 ranks"));
    CHECK_THAT(answer({"explain", "halving", "-n", "6"}), Contains("cannot run on topology 6"));
    CHECK_THAT(answer({"explain", "hitopk", "-t", "2x3", "-e", "ptx"}),
               Contains("no kernel of a device runs hitopk") && Contains("the schedule computes"));
}

TEST_CASE("predict tells the time by line and level, the bottleneck, and the same as JSON") {
    const Finished text = schedc({"predict", "blueconnect", "-t", "4mx8h@10Gb/s", "-b", "1M", "--certify"});
    INFO(text.err);
    CHECK(text.exit_code == 0);
    CHECK_THAT(text.out, StartsWith("blueconnect on 4mx8h@10Gb/s, 32 ranks, 1 MiB, calibrated"));
    CHECK_THAT(text.out, Contains("blueconnect.sched:4  reduce_scatter x over l  by"));
    CHECK_THAT(text.out, Contains("bottleneck: link host 0 up") && Contains("; 15 others as much"));
    const Finished result =
        schedc({"predict", "bml", "-t", "bcube(3,2)", "-b", "1M", "--ideal", "--json", "-N", "latency hop"});
    REQUIRE(result.exit_code == 0);
    const auto json = nlohmann::json::parse(result.out);
    const double seconds = json["seconds"];
    CHECK(seconds == Approx(80e-6 + 16.0 / 18 * (1 << 20) / 1.25e9).epsilon(1e-9));
    for (const char* table : {"lines", "levels"}) {
        double sum = 0;
        for (const auto& entry : json[table]) sum += entry["seconds"].get<double>();
        CHECK(sum == Approx(seconds));
    }
    CHECK(json["links"].size() == 36);
    for (const auto& link : json["links"]) CHECK(link["busy"].get<double>() <= 1 + 1e-9);
}

TEST_CASE("predict says of many ranks that one stands for all, or why none does") {
    const std::vector<std::string> ask{"predict", "bml", "-t", "bcube(8,4)", "-b", "1M", "--ideal"};
    const Finished text = schedc(ask);
    INFO(text.err);
    CHECK_THAT(text.out, StartsWith("bml on bcube(8, 4), 4096 ranks, 1 MiB, ideal") &&
                             Contains("by symmetry: rank 0 stands for all; proved so\n") &&
                             Contains("bottleneck: link port 0 up") && Contains("; 32767 others as much"));
    std::vector<std::string> as_json = ask;
    as_json.push_back("--json");
    const auto json = nlohmann::json::parse(schedc(as_json).out);
    CHECK(json["by_symmetry"] == true);
    CHECK(json["proved_on"] == std::vector<std::string>{"bcube(8, 4)"});
    REQUIRE(json["links"].size() == 8);
    for (const auto& link : json["links"]) CHECK(link["alike"] == 4096);
    const Finished tree = schedc({"predict", "binomial", "-n", "2048", "-b", "1M", "-c", "broadcast"});
    CHECK_THAT(tree.out, Contains("in full: no rank stands for all ranks:") && Contains("binomial.sched:6"));
    const Finished refused = schedc({"predict", "ring", "-t", "256x256", "-b", "1M"});
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Contains("ring is too large for 65536 ranks") && Contains("take fewer ranks"));
}

TEST_CASE("predict writes a picture, a trace and a table") {
    const std::string folder = HOCKET_TEST_FOLDER;
    const Finished result = schedc({"predict", "ring", "-n", "4", "-b", "64K", "--timeline",
                                    folder + "/ring.svg", "--trace", folder + "/ring.json"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const auto content = [&](const std::string& name) {
        std::ifstream stream(folder + "/" + name);
        return std::string{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    };
    const std::string picture = content("ring.svg");
    std::size_t boxes = 0;
    for (std::size_t at = 0; (at = picture.find("<title>", at)) != std::string::npos; ++at) ++boxes;
    CHECK(boxes == 24);
    CHECK_THAT(picture, Contains("schedules/ring.sched:6  x[r - s] : r +&gt; r + 1<") &&
                            Contains("critical path: 6 messages, each from"));
    // Each of them, and its way; and an example.
    std::size_t red = 0;
    for (std::size_t at = 0; (at = picture.find("class=\"c\"/>", at)) != std::string::npos; ++at) ++red;
    CHECK(red == 1 + 2 * 6);
    CHECK_THAT(picture, StartsWith("<svg ") && Catch::Matchers::EndsWith("</svg>\n"));
    const auto trace = nlohmann::json::parse(content("ring.json"));
    CHECK(std::count_if(trace.begin(), trace.end(), [](const auto& event) {
              return event.value("ph", "") == "X" && event["args"]["bytes"] == 16384;
          }) == 24);
    // Ranks of a host calculate in their own memory, besides the messages.
    const Finished calculating = schedc({"predict", "naive_ag", "-t", "4m", "-b", "1M", "--timeline",
                                         folder + "/naive_ag.svg", "--trace", folder + "/naive_ag.json"});
    CHECK_THAT(calculating.out, Contains("; 4 messages, 16 calculations\n"));
    CHECK_THAT(content("naive_ag.svg"), Contains("critical path: 5 in a rank's memory<") &&
                                            Contains(": 0 calculates, ") &&
                                            Contains(": 0 fetches from 3 ranks, "));
    const auto calculated = nlohmann::json::parse(content("naive_ag.json"));
    CHECK(std::count_if(calculated.begin(), calculated.end(), [](const auto& event) {
              return event.value("cat", "") == "calculation" && !event["args"].contains("to");
          }) == 16);
    const Finished sweep = schedc({"predict", "ring", "-t", "2x%", "--sweep", "bytes=1K..4K,ranks=2..4",
                                   "--csv", folder + "/ring.csv"});
    CHECK(sweep.exit_code == 0);
    const std::string table = content("ring.csv");
    CHECK(std::count(table.begin(), table.end(), '\n') == 7);
    CHECK(std::count(sweep.out.begin(), sweep.out.end(), '\n') == 7);
    CHECK_THAT(table, Contains("\"ring\",\"2x4\",8,4096,"));
}

TEST_CASE("a sweep compares schedules: a column and a curve each, and a gap where one does not run") {
    const std::string folder = HOCKET_TEST_FOLDER;
    const std::string small = folder + "/small.sched";
    std::ofstream(small)
        << "schedule few all_reduce(x) where ranks < 4 { all_reduce x over world using exchange }";
    const Finished result = schedc({"predict", "ring", small, "direct", "--sweep", "bytes=1K..4K,ranks=2..4",
                                    "--csv", folder + "/curves.csv", "--svg", folder + "/curves.svg"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const std::regex heading("^ *ranks +bytes +ring +few +direct\n");
    CHECK(std::regex_search(result.out, heading));
    const std::regex with_gap("\n +4 +1 KiB +[0-9.]+ us +- +[0-9.]+ us\n");
    CHECK(std::regex_search(result.out, with_gap));
    CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 7);
    const auto content = [&](const std::string& name) {
        std::ifstream stream(folder + "/" + name);
        return std::string{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    };
    const std::string csv = content("curves.csv");
    CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 3 * 3 + 3 * 2);
    // Each prediction of the table is that of its schedule alone.
    const auto alone =
        nlohmann::json::parse(schedc({"predict", "direct", "-n", "4", "-b", "2K", "--json"}).out);
    CHECK_THAT(csv, Contains("\"direct\",\"4\",4,2048," + nlohmann::json(alone["seconds"]).dump()));
    const std::string picture = content("curves.svg");
    const auto occurrences = [&](const std::string& what) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = picture.find(what, at)) != std::string::npos; ++at) ++found;
        return found;
    };
    CHECK(occurrences("<circle ") == 3 * 3 + 3 * 2);
    CHECK(occurrences("<polyline ") == 2 * (3 + 2));  // of each curve, and in the legend
    CHECK_THAT(picture,
               Contains(">direct, 4 ranks<") && Contains(">2 KiB<") && Contains("prefers-color-scheme"));
    CHECK_THAT(picture, StartsWith("<svg ") && Catch::Matchers::EndsWith("</svg>\n"));
}

TEST_CASE("a row of a sweep is what a prediction of that size alone gives") {
    // Its algorithms depend on the size.
    const std::string csv = std::string(HOCKET_TEST_FOLDER) + "/times.csv", hosts = "4mx8h@100Gb/s";
    REQUIRE(
        schedc({"predict", "blueconnect", "-t", hosts, "--sweep", "bytes=1K..1M", "--csv", csv}).exit_code ==
        0);
    std::ifstream stream(csv);
    const std::string table{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    for (const std::string bytes : {"1024", "1048576"}) {
        const Finished one = schedc({"predict", "blueconnect", "-t", hosts, "-b", bytes, "--json"});
        const nlohmann::json seconds = nlohmann::json::parse(one.out)["seconds"];
        CHECK_THAT(table, Contains("32," + bytes + "," + seconds.dump()));
    }
    // Numbers of ranks that a schedule does not run on are left out.
    const Finished some = schedc({"predict", "halving", "--sweep", "ranks=4..8", "-t", "%x1", "-b", "1K"});
    CHECK(std::count(some.out.begin(), some.out.end(), '\n') == 3);
    const Finished none = schedc({"predict", "halving", "--sweep", "ranks=3..24", "-b", "1K"});
    CHECK(none.exit_code == 1);
    CHECK_THAT(none.err, Contains("cannot run on topology 3"));
}

TEST_CASE("predict writes GOAL") {
    const std::string path = std::string(HOCKET_TEST_FOLDER) + "/schedule.goal";
    const Finished ring = schedc({"predict", "ring", "-n", "4", "-b", "1K", "--export", "goal", path});
    INFO(ring.err);
    CHECK(ring.exit_code == 0);
    std::ifstream stream(path);
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    CHECK_THAT(text, StartsWith("num_ranks 4\n") && Contains("send 256b to 1 tag 0\n"));
    CHECK(schedc({"predict", "ring", "-n", "4", "-b", "1K", "--export", "gaol", path}).exit_code == 2);
}

TEST_CASE("a selection is values of the type that is named, and their indices") {
    const auto bytes = [](std::vector<std::string> type) {
        std::vector<std::string> arguments = {
            "predict", "naive_ag_lossy(0.01)", "-n", "4", "-b", "1.5M", "--json", "--ideal"};
        arguments.insert(arguments.end(), type.begin(), type.end());
        const Finished result = schedc(arguments);
        INFO(result.err);
        REQUIRE(result.exit_code == 0);
        return nlohmann::json::parse(result.out)["levels"][0]["bytes"].get<double>();
    };
    const double values = 0.01 * 1.5 * (1 << 20), messages = 4 * 3;
    CHECK(bytes({}) == Approx(messages * 2 * values));
    CHECK(bytes({"--type", "float16"}) == Approx(messages * 3 * values));
    CHECK(bytes({"--type", "float64"}) == Approx(messages * 1.5 * values));
    CHECK_THAT(schedc({"explain", "naive_ag_lossy(0.01)", "-n", "4", "--type", "bfloat16"}).out,
               Contains("sends 0.09 x in"));
    CHECK(schedc({"predict", "ring", "-n", "4", "-b", "1M", "--type", "float12"}).exit_code == 2);
}

TEST_CASE("words of the command line that mean nothing are named, with what is right") {
    const auto refused = [](std::vector<std::string> arguments, int code, const std::string& message) {
        arguments.insert(arguments.begin(), {"predict", "ring"});
        const Finished result = schedc(arguments);
        CHECK(result.exit_code == code);
        CHECK(result.out.empty());
        CHECK_THAT(result.err, Contains(message));
    };
    refused({"-t", "4mx8q", "-b", "1M"}, 1, "<topology>:1:5: error: 'q' is no kind of level");
    refused({"-t", "4x", "-b", "1M"}, 1, "<topology>:1:3: error: the number of ranks is missing");
    refused({"-t", "4mx8h@100gb/s", "-b", "1M"}, 1, "write 100Gb/s for bits");
    refused({"-t", "4mx8h,5us", "-b", "1M"}, 1, "only a level of hosts with a rate takes a latency");
    refused({"-n", "4", "-b", "-64M"}, 2, "a size must be 0 or more: '-64M'");
    refused({"-n", "4", "-b", "1.3K"}, 2, "a whole number of bytes");
    refused({"-n", "4", "-b", "64Q"}, 2, "a size has no unit 'Q'");
    refused({"-n", "4", "--sweep", "bytes=1K..64Q"}, 1, "<sweep>:1:13: error: a size has no unit 'Q'");
    for (const char* time : {"nan", "0", "-1", "inf", "1s"})
        refused({"-n", "4", "-b", "1M", "--timeout", time}, 2, "give seconds above 0");
    refused({"-n", "4", "-b", "1M", "-N", ""}, 2, "the network is empty");
    refused({"-n", "4", "-b", "1M", "-N", "order digits; order digits"}, 1,
            "<network>:1:15: error: this is a second");
}

TEST_CASE("predict refuses what has no time") {
    const auto refused = [](std::vector<std::string> arguments, const std::string& message) {
        arguments.insert(arguments.begin(), {"predict", "ring"});
        const Finished result = schedc(arguments);
        CHECK(result.exit_code == 1);
        CHECK(result.out.empty());
        CHECK_THAT(result.err, Contains(message));
    };
    refused({"-n", "4"}, "the size is missing");
    refused({"-b", "1M"}, "the number of ranks is missing");
    refused({"-n", "4", "-b", "1M", "-N", "torus(3)"}, "3 places for 4 ends");
    refused({"-n", "4", "-b", "1M", "-N", "link 0 1 1Gb/s; link 2 3 1Gb/s"}, "no way from rank 0 to rank 2");
    refused({"-n", "4", "-b", "1G", "-N", "ring@1e-300b/s"}, "longer than can be said");
    refused({"-n", "4", "--sweep", "bytes=1K..2"}, "from 1024 to 2");
    refused({"-n", "4", "--sweep", "time=1..2"}, "'time=1..2' is unknown");
    refused({"-n", "4", "-b", "1K", "--sweep", "ranks=2..4"}, "both --ranks and a sweep over ranks");
    refused({"-n", "4", "-b", "1K", "--sweep", "bytes=2..4"}, "both --bytes and a sweep over bytes");
    refused({"-n", "4", "--sweep", "bytes=2..4,bytes=8"}, "are given twice");
    refused({"-t", "4", "-b", "1K", "--sweep", "ranks=1..2"}, "write % for the number");
    refused({"direct", "-n", "4", "-b", "1K"}, "2 schedules at once");
    refused({"rnig", "-n", "4", "--sweep", "bytes=1K"}, "there is no schedule 'rnig'");
    refused({"halving", "-n", "6", "--sweep", "bytes=1K"}, "cannot run on topology 6");
    refused({"-n", "4", "-b", "1K", "--timeline", "/no/such/folder/a.svg"}, "/no/such/folder/a.svg");
}
