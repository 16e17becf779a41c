// hocket-overlap as people use it: tables, JSON and pictures of plans, and its errors.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using hocket::test::Finished;
using hocket::test::TemporaryFolder;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

const std::string examples = HOCKET_SCHEDULES "/../examples/overlap";

Finished plan(const Words& arguments) {
    Words command{HOCKET_OVERLAP, "plan"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return hocket::test::run(command, 60s);
}

std::string text_in(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Numbers that follow from hand: communication 1 + 2, 1 + 3, 1 + 4 where each layer is by itself.
std::string small_profile(const TemporaryFolder& folder) {
    std::string file = folder.path() + "/small.json";
    std::ofstream(file) << R"({"startup": 1, "layers": [{"name": "a<b", "transfer": 2, "compute": 5},)"
                           R"({"transfer": 3, "compute": 6}, {"transfer": 4, "compute": 7}]})";
    return file;
}

// The boxes of one kind in a picture: {left, right} in pixels, as they are drawn.
std::vector<std::pair<double, double>> boxes(const std::string& picture, const std::string& kind) {
    const std::regex box("<rect class=\"" + kind + "\" x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\"");
    std::vector<std::pair<double, double>> found;
    for (std::sregex_iterator match(picture.begin(), picture.end(), box), end; match != end; ++match) {
        const double x = std::stod((*match)[1]);
        found.emplace_back(x, x + std::stod((*match)[2]));
    }
    return found;
}

}  // namespace

TEST_CASE("what a whole iteration takes besides is said") {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/measured.json";
    std::ofstream(file) << R"({"startup": 1, "before": 0.25, "latency": 0.5, "contention": 0.5, "layers": [)"
                           R"({"transfer": 2, "compute": 5}, {"transfer": 9, "compute": 4}]})";
    const Finished table = plan({file, "--backward"});
    CHECK(table.exit_code == 0);
    CHECK_THAT(table.out,
               Contains("a whole iteration takes 0.75 s more: 0.25 s before, and 0.5 s of latency\n"));
    const Json json = Json::parse(plan({file, "--backward", "--json"}).out);
    CHECK(json["before"] == 0.25);
    CHECK(json["latency"] == 0.5);
    CHECK_THAT(table.out, Contains("layers compute 50.0 % longer beside communication"));
    CHECK(json["contention"] == 0.5);
    // Layer 2 computes until 4 and moves until 14; layer 1 computes until 9, or 11.5 beside it, and moves
    // until 17.
    CHECK(json["methods"]["layers"]["seconds"] == 17);
    CHECK(json["methods"]["layers"]["iteration"] == 17.75);
    CHECK(json["methods"]["sequential"]["iteration"] == 21.75);
    CHECK_FALSE(Json::parse(plan({file, "--json"}).out)["methods"]["layers"].contains("iteration"));
    CHECK_THAT(plan({small_profile(folder)}).out, !Contains("whole iteration"));
}

TEST_CASE("a profile that has forward passes is planned for both directions, and for one that is asked for") {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/both.json";
    std::ofstream(file)
        << R"({"startup": 0, "before": 7, "layers": [{"transfer": 1, "compute": 2, "forward": 3},)"
           R"({"transfer": 10, "compute": 1, "forward": 4}]})";
    const Json json = Json::parse(plan({file, "--json"}).out);
    CHECK(json["direction"] == "both");
    // Layer 2 moves from 1 to 3; layer 1 from 3 to 4, and computes until 7; layer 2 moves until 12.
    CHECK(json["iterations"]["layers"]["with_gradients"] == 16);
    CHECK(json["with_gradients"]["layers"]["seconds"] == 16);
    // Layer 1 comes at 4, layer 2 at 14.
    CHECK(json["iterations"]["layers"]["by_themselves"] == 18);
    CHECK(json["by_themselves"]["layers"]["seconds"] == 15);
    CHECK(json["iterations"]["sequential"]["with_gradients"] == 21);
    CHECK(json["iterations"]["mg_wfbp"].contains("with_gradients"));
    CHECK_FALSE(json["iterations"]["mg_wfbp"].contains("by_themselves"));
    const Finished table = plan({file});
    CAPTURE(table.out, table.err);
    CHECK(table.exit_code == 0);
    CHECK_THAT(table.out, Contains("weights come back with gradients: both passes\n") &&
                              Contains("weights come back by themselves: the forward pass\n") &&
                              Contains("layers            16.000000       18.000000\n"));
    CHECK(Json::parse(plan({file, "--json", "--backward"}).out)["direction"] == "backward");
}

TEST_CASE("the JSON has each method's seconds and batches, in both directions") {
    const TemporaryFolder folder;
    const std::string profile = small_profile(folder);
    for (const bool is_backward : {false, true}) {
        Words arguments{profile, "--json"};
        if (is_backward) arguments.push_back("--backward");
        const Finished said = plan(arguments);
        CAPTURE(said.out, said.err);
        REQUIRE(said.exit_code == 0);
        const Json json = Json::parse(said.out), methods = json.at("methods");
        CHECK(json.at("direction") == (is_backward ? "backward" : "forward"));
        CHECK(json.at("layers") == 3);
        CHECK(methods.size() == (is_backward ? 7 : 6));
        CHECK(methods.at("sequential").at("seconds") == 28);
        CHECK(methods.at("sequential").at("batches") == Json::parse("[[1, 3]]"));
        CHECK(methods.at("layers").at("seconds") == 21);
        CHECK(methods.at("layers").at("overlap") == 9);
        CHECK(methods.at("layers").at("batches") == Json::parse("[[1, 1], [2, 2], [3, 3]]"));
        CHECK(methods.at("optimum").at("seconds") == 21);
        for (const char* method : {"algorithm1", "algorithm2", "ibatch"})
            CHECK(methods.at(method).at("batches").back().back() == 3);
        CHECK(methods.contains("mg_wfbp") == is_backward);
    }
}

TEST_CASE("the table has a line for each method, with the time and the share that overlaps") {
    const TemporaryFolder folder;
    const Finished said = plan({small_profile(folder)});
    CAPTURE(said.out, said.err);
    CHECK(said.exit_code == 0);
    CHECK_THAT(said.out, Contains("3 layers, start-up 1 s, transfers 9 s, computation 18 s\n"));
    CHECK_THAT(said.out,
               Contains("sequential    28.000000        1    0.0 %   10.000000   18.000000  1-3\n"));
    CHECK_THAT(said.out,
               Contains("layers        21.000000        3   42.9 %    3.000000    9.000000  1 2 3\n"));
}

TEST_CASE("a picture of work that takes no time has numbers where it needs them") {
    const TemporaryFolder folder;
    const std::string profile = folder.path() + "/nothing.json", file = folder.path() + "/plans.svg";
    std::ofstream(profile) << R"({"startup": 0, "layers": [{"transfer": 0, "compute": 0}]})";
    const Finished said = plan({profile, "--picture", file});
    INFO(said.err);
    REQUIRE(said.exit_code == 0);
    CHECK_THAT(text_in(file), Contains("start-up") && !Contains("nan") && !Contains("inf"));
}

TEST_CASE("the picture shows when what happens: start-ups and transfers apart, each layer that computes") {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/plans.svg";
    const Finished said = plan({small_profile(folder), "--picture", file});
    CAPTURE(said.err);
    REQUIRE(said.exit_code == 0);
    const std::string picture = text_in(file);
    CHECK_THAT(picture, Contains("<svg xmlns") && Contains("a&lt;b: 2 s") && !Contains("a<b") &&
                            Contains("layers, optimum: 21 s, batches: 3, overlap 42.9 %"));
    // 28 s are 1000 pixels, from 110 on; the first box of each kind is the key's.
    const auto startups = boxes(picture, "startup"), transfers = boxes(picture, "transfer"),
               computations = boxes(picture, "compute");
    const auto at = [](double seconds) { return 110 + seconds * 1000 / 28; };
    const auto is_at = [&](std::pair<double, double> box, double from, double to) {
        CHECK(box.first == Approx(at(from)).margin(0.02));
        CHECK(box.second == Approx(at(to)).margin(0.02));
    };
    REQUIRE(startups.size() >= 5);
    is_at(startups[1], 0, 1);  // sequential
    is_at(transfers[3], 6, 10);
    is_at(computations[1], 10, 15);
    is_at(computations[3], 21, 28);
    is_at(startups[3], 3, 4);  // the second of layers
    is_at(transfers[5], 4, 7);
    is_at(computations[4], 3, 8);
    is_at(computations[5], 8, 14);
}

TEST_CASE("mistakes are said, and where they are") {
    const TemporaryFolder folder;
    const std::string wrong = folder.path() + "/wrong.json", small = small_profile(folder);
    std::ofstream(wrong) << R"({"startup": 1, "layers": [{"transfer": -2, "compute": 5}]})";
    const auto fails = [](const Finished& said, int exit_code, const std::string& why) {
        CAPTURE(said.out, said.err);
        CHECK(said.exit_code == exit_code);
        CHECK(said.out.empty());
        CHECK_THAT(said.err, Contains(why));
    };
    fails(plan({wrong}), 1, "wrong.json: layers[0].transfer is -2; it must be seconds, from 0 to 1e+09");
    fails(plan({folder.path() + "/none.json"}), 1, "none.json cannot be read: No such file");
    fails(plan({small, "--limit", "1MiB"}), 1,
          "a limit in bytes needs the bytes of all layers, and layer 1 has none");
    fails(plan({small, "--picture", "/dev/full"}), 1, "the picture /dev/full cannot be written");
    fails(plan({}), 2, "PROFILE");
    fails(plan({small, "--limit", "many"}), 2, "--limit");
}

TEST_CASE("the profiles of the examples are what their program writes, and are planned") {
    const TemporaryFolder folder;
    const Finished made = hocket::test::run({examples + "/make_profiles", folder.path()}, 60s);
    CAPTURE(made.out, made.err);
    REQUIRE(made.exit_code == 0);
    int profiles = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        const std::string file = examples + "/" + entry.path().filename().string();
        CAPTURE(file);
        ++profiles;
        CHECK(text_in(file) == text_in(entry.path().string()));
        const Finished said = plan({file, "--json"});
        REQUIRE(said.exit_code == 0);
        const Json methods = Json::parse(said.out).at("methods");
        const double best = methods.at("optimum").at("seconds");
        for (const Json& method : methods) CHECK(method.at("seconds") >= best);
        CHECK(methods.at("ibatch").at("seconds") < methods.at("sequential").at("seconds"));
    }
    CHECK(profiles == 6);
}
