// Random programs of the schedule language (tests/differential), run by real processes: in memory, over tcp
// and both mixed, by both executors, every element checked. HOCKET_DIFFERENTIAL_SEEDS = "first:last" runs
// others.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::test::Finished;
using hocket::test::Process;

namespace {

struct Program {
    std::string path, collective, schedule, topology, ranks, root;
};

// The ones that the generator writes for these seeds.
std::vector<Program> programs(const std::string& folder) {
    std::string first = "1", last = "10";
    if (const char* text = std::getenv("HOCKET_DIFFERENTIAL_SEEDS")) {
        const std::string seeds = text;
        first = seeds.substr(0, seeds.find(':'));
        last = seeds.substr(seeds.find(':') + 1);
    }
    std::filesystem::create_directories(folder);
    const Finished written = hocket::test::run({HOCKET_DIFFERENTIAL_PROGRAMS, first, last, folder}, 60s);
    INFO(written.out << written.err);
    REQUIRE(written.exit_code == 0);
    std::vector<Program> programs;
    std::istringstream paths(written.out);
    for (std::string path; std::getline(paths, path);) {
        Program program{path, {}, {}, {}, {}, {}};
        std::string hash;
        std::ifstream(path) >> hash >> program.collective >> program.schedule >> program.topology >>
            program.ranks >> program.root;
        REQUIRE(hash == "#");
        programs.push_back(program);
    }
    return programs;
}

// The connections between the ranks.
struct Way {
    const char* name;
    Process::Environment environment;
    std::string prelude;  // of the shell that becomes a rank
};

const std::vector<Way>& ways() {
    static const std::vector<Way> all{
        {"memory", {}, ""},
        {"tcp", {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}, ""},
        {"encrypted tcp", {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}, {"HOCKET_ENCRYPTION", "on"}}, ""},
        {"hosts in pairs", {}, "export HOCKET_HOST_ID=$((RANK / 2)); "},
        {"hosts in turn", {}, "export HOCKET_HOST_ID=$((RANK % 2)); "}};
    return all;
}

void run_one(const Program& program, const Way& way, const std::string& json_file) {
    std::remove(json_file.c_str());
    const std::string bench = way.prelude + "exec \"$0\" \"$@\"";
    const Finished result = hocket::test::run({HOCKET_RUN,    "-n",
                                               program.ranks, "--timeout",
                                               "100",         "sh",
                                               "-c",          bench,
                                               HOCKET_BENCH,  program.collective,
                                               "-b",          "0",
                                               "-e",          "70K",
                                               "-f",          "97",
                                               "-d",          "int32",
                                               "-n",          "1",
                                               "-w",          "1",
                                               "-c",          "1",
                                               "-r",          program.root,
                                               "--schedule",  program.path + ":" + program.schedule,
                                               "--topology",  program.topology,
                                               "--executor",  "both",
                                               "--json",      json_file},
                                              110s, way.environment);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    std::ifstream stream(json_file);
    const auto json = nlohmann::json::parse(stream);
    CHECK(json["wrong"] == 0);
    CHECK(json["out_of_bounds"] == 0);
    CHECK(json["schedule"].get<std::string>() != "");
    CHECK(json["rows"].size() >= 4);  // two sizes at least, each by both executors
}

}  // namespace

TEST_CASE("random programs are right between real processes") {
    const std::string folder = std::string(HOCKET_TEST_FOLDER) + "/differential";
    const std::vector<Program> all = programs(folder);
    REQUIRE(all.size() >= 1);
    const bool every_way = std::getenv("HOCKET_DIFFERENTIAL_SEEDS") != nullptr;
    for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t w = 0; w < ways().size(); ++w) {
            // Two ways each, in turn, are enough for a short run.
            if (!every_way && w != i % ways().size() && w != (i + 1) % ways().size()) continue;
            const Program& program = all[i];
            INFO(program.path << ": " << program.collective << " " << program.schedule << " on "
                              << program.topology << ", root " << program.root << ", " << ways()[w].name);
            run_one(program, ways()[w], folder + "/bench.json");
        }
}
