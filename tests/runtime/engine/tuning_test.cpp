#include "runtime/engine/job/tuning.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hpp"
#include "runtime/engine/communicator.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Contains;
using dsl::Collective;
using engine::JobShape;
using engine::TunedRange;
using engine::Tuning;
using engine::TuningTable;
using test::expect;

namespace fs = std::filesystem;

namespace {

const JobShape four{"4m/2", "memory", 4}, grid{"2mx3h", "memory, tcp;ofi_rxm", 6};

TuningTable example() {
    return {{four,
             {{Collective::all_reduce,
               {{2, 90, 32, 1.25, "exchange"}, {91, 4000, 1024, 9.5, "flat(ring, direct)"}}},
              {Collective::broadcast, {{1, UINT64_MAX, 64, 0.125, "binomial"}}}}},
            {grid, {{Collective::all_gather, {{100, 200, 150, 3e6, "blueconnect"}}}}}};
}

// A folder of the test case's own, removed at its end.
struct Folder {
    fs::path path = fs::temp_directory_path() / ("hocket-tuning-test-" + std::to_string(getpid()));
    Folder() {
        fs::remove_all(path);
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    std::string file(const std::string& name = "tuning.json") const { return (path / name).string(); }
    void write(const std::string& text, const std::string& name = "tuning.json") const {
        std::ofstream(file(name)) << text;
    }
};

std::string refusal_of(const std::string& text) {
    try {
        engine::parse_tuning(text);
    } catch (const Error& error) {
        CHECK(error.status() == Status::invalid_argument);
        return error.what();
    }
    return "none";
}

// The example with one member replaced; the path is a JSON pointer.
std::string with(const std::string& path, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(engine::text_of(example()));
    json[nlohmann::json::json_pointer(path)] = value;
    return json.dump();
}

// The text that this process writes to stderr while the action runs.
template <typename Action>
std::string stderr_of(const Folder& folder, Action action) {
    std::fflush(stderr);
    const int kept = dup(2);
    REQUIRE(std::freopen(folder.file("stderr").c_str(), "w", stderr) != nullptr);
    action();
    std::fflush(stderr);
    dup2(kept, 2);
    close(kept);
    std::ifstream stream(folder.file("stderr"));
    return {std::istreambuf_iterator<char>(stream), {}};
}

// The shape of three ranks in memory depends on the number of cores; a table for both shapes always applies.
TuningTable of_three(const std::string& schedule) {
    TuningTable table;
    for (const char* topology : {"3m", "3m/1", "3m/2"})
        table[{topology, "memory", 3}][Collective::all_reduce] = {{2, 1000, 64, 12.0, schedule}};
    return table;
}

std::string schedule_of(engine::Communicator& comm, std::uint64_t count,
                        std::optional<std::string> schedule = std::nullopt) {
    return comm.plans().plan_for(comm.plans().cached({.schedule = schedule}), count).text;
}

}  // namespace

TEST_CASE("a tuning table comes back as it was written") {
    const Folder folder;
    const std::string file = folder.file("deep/down/tuning.json");
    CHECK(!engine::read_tuning(file));
    engine::write_tuning(file, example());
    CHECK(engine::read_tuning(file) == example());
    engine::write_tuning(file, {});
    CHECK(engine::read_tuning(file) == TuningTable());
    CHECK(std::distance(fs::directory_iterator(folder.path / "deep/down"), {}) ==
          1);  // no file is left beside it
}

TEST_CASE("writing goes through a link, and what cannot be written is an error that keeps the old") {
    const Folder folder;
    engine::write_tuning(folder.file(), example());
    fs::create_symlink("tuning.json", folder.path / "link.json");
    engine::write_tuning(folder.file("link.json"), {});
    CHECK(fs::is_symlink(folder.path / "link.json"));
    CHECK(engine::read_tuning(folder.file()) == TuningTable());
    folder.write("", "no_folder");
    CHECK_THROWS_WITH(engine::write_tuning(folder.file("no_folder/tuning.json"), {}),
                      Contains("no_folder/tuning.json cannot be written"));
    fs::create_directory(folder.path / "a_folder");
    CHECK_THROWS_WITH(engine::write_tuning(folder.file("a_folder"), {}), Contains("cannot be written"));
    CHECK(fs::is_directory(folder.path / "a_folder"));
}

TEST_CASE("a bare file name is one of the current folder") {
    const Folder folder;
    const fs::path before = fs::current_path();
    fs::current_path(folder.path);
    engine::write_tuning("bare.json", example());
    fs::current_path(before);
    CHECK(fs::exists(folder.file("bare.json")));
}

TEST_CASE("what was measured anew replaces its collective of its shape alone") {
    TuningTable table = example();
    const std::vector<TunedRange> news = {{5, 6, 5, 1.0, "ring"}};
    engine::merge(table, {{four, {{Collective::all_reduce, news}}},
                          {{"2m", "memory", 2}, {{Collective::broadcast, news}}}});
    TuningTable wanted = example();
    wanted[four][Collective::all_reduce] = news;
    wanted[{"2m", "memory", 2}][Collective::broadcast] = news;
    CHECK(table == wanted);
}

TEST_CASE("a size finds its range, and outside of all there is none") {
    const Tuning tuning = example().at(four);
    const auto schedule_at = [&](std::uint64_t bytes, Collective collective = Collective::all_reduce) {
        const TunedRange* range = engine::find(tuning, collective, bytes);
        return range ? range->schedule : "";
    };
    CHECK(schedule_at(1) == "");
    CHECK(schedule_at(2) == "exchange");
    CHECK(schedule_at(90) == "exchange");
    CHECK(schedule_at(91) == "flat(ring, direct)");
    CHECK(schedule_at(4000) == "flat(ring, direct)");
    CHECK(schedule_at(4001) == "");
    CHECK(schedule_at(UINT64_MAX, Collective::broadcast) == "binomial");
    CHECK(schedule_at(100, Collective::all_gather) == "");
}

TEST_CASE("a table that is cut off anywhere is refused") {
    std::string text = engine::text_of(example());
    text.resize(text.find_last_of('}') + 1);
    CHECK(engine::parse_tuning(text) == example());
    for (std::size_t length = 0; length < text.size(); ++length)
        CHECK(refusal_of(text.substr(0, length)) == "it is no JSON, or cut off");
}

TEST_CASE("a table with a byte changed is refused or read, but nothing else happens") {
    const std::string text = engine::text_of(example());
    int refused = 0;
    for (std::size_t at = 0; at < text.size(); ++at)
        for (const char byte : {'\0', '"', '[', '}', '9', '-', '\xff'}) {
            std::string damaged = text;
            damaged[at] = byte;
            refused += refusal_of(damaged) != "none";
        }
    CHECK(refused > static_cast<int>(text.size()));
}

TEST_CASE("a member of another kind is refused by its name") {
    const std::string range = "/jobs/0/collectives/all_gather/0", job = "/jobs/0";
    REQUIRE(refusal_of(with(job + "/ranks", 6)) == "none");
    for (const nlohmann::json& value :
         std::vector<nlohmann::json>{nullptr, "", -1, 0.5, {1}, {{"a", 1}}, true}) {
        CAPTURE(value.dump());
        for (const char* key : {"from", "up_to", "bytes"})
            CHECK_THAT(refusal_of(with(range + "/" + key, value)), Contains(key));
        for (const char* key : {"topology", "provider", "ranks"})
            CHECK_THAT(refusal_of(with(job + "/" + key, value)), Contains(key));
        CHECK_THAT(refusal_of(with(range + "/schedule", value)), Contains("\"schedule\""));
        CHECK(refusal_of(with(range, value)) != "none");
        CHECK(refusal_of(with(job, value)) != "none");
        CHECK_THAT(refusal_of(with("/version", value)), Contains("version"));
        CHECK_THAT(refusal_of(with("/format", value)), Contains("\"format\""));
    }
    for (const nlohmann::json& value : std::vector<nlohmann::json>{nullptr, "1", 0, -1.0, {1}})
        CHECK_THAT(refusal_of(with(range + "/us", value)), Contains("\"us\""));
    for (const nlohmann::json& value : std::vector<nlohmann::json>{nullptr, "x", 1, {{"a", 1}}}) {
        CHECK_THAT(refusal_of(with("/jobs", value)), Contains("\"jobs\""));
        CHECK(refusal_of(with(job + "/collectives/all_gather", value)) != "none");
    }
}

TEST_CASE("what cannot be is refused") {
    const std::string range = "/jobs/1/collectives/all_reduce/1";
    CHECK_THAT(refusal_of("[]"), Contains("\"format\" is missing"));
    CHECK_THAT(refusal_of(with("/format", "something else")), Contains("not \"hocket tuning table\""));
    CHECK(refusal_of(with("/version", 2)) == "it has version 2, and this Hocket knows version 1");
    CHECK_THAT(refusal_of(with("/jobs/1/ranks", 0)), Contains("\"ranks\""));
    CHECK_THAT(refusal_of(with("/jobs/1/collectives/all_sorts", nlohmann::json::array())),
               Contains("unknown collective"));
    CHECK_THAT(refusal_of(with(range + "/from", 90)), Contains("from 90 up to 4000"));
    CHECK_THAT(refusal_of(with(range + "/up_to", 90)), Contains("from 91 up to 90"));
    CHECK_THAT(refusal_of(with(range + "/schedule", "ring\nfake")), Contains("more than a line"));
    CHECK_THAT(refusal_of(with(range + "/schedule", std::string(2000, 'x'))), Contains("too long"));
    CHECK(refusal_of(std::string(100'000, '[')) == "it is no JSON, or cut off");
}

TEST_CASE("a file that is no table's is refused, not waited for") {
    const Folder folder;
    CHECK_THROWS_WITH(engine::read_tuning(folder.path.string()), Contains("cannot be read: Is a directory"));
    REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
    CHECK_THROWS_WITH(engine::read_tuning(folder.file("pipe")), Contains("cannot be read: it is a FIFO"));
    folder.write(std::string(1 << 20, ' '));
    CHECK_THROWS_WITH(engine::read_tuning(folder.file()), Contains("larger than"));
    folder.write("");
    CHECK_THROWS_WITH(engine::read_tuning(folder.file()), Contains("no JSON"));
}

TEST_CASE("where the table is looked for") {
    using Variables = std::map<std::string, std::string>;
    const auto tuning = [](const Variables& variables) {
        const auto options = engine::resolve({}, [&](const char* name) -> const char* {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        });
        CHECK(options.tuning_is_named == (variables.count("HOCKET_TUNING") && !options.tuning.empty()));
        return options.tuning;
    };
    CHECK(tuning({}) == "");
    CHECK(tuning({{"HOME", "/home/a"}}) == "/home/a/.cache/hocket/tuning.json");
    CHECK(tuning({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/cache"}}) == "/cache/hocket/tuning.json");
    CHECK(tuning({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "here"}}) == "/home/a/.cache/hocket/tuning.json");
    CHECK(tuning({{"HOME", "/home/a"}, {"HOCKET_TUNING", "x.json"}}) == "x.json");
    CHECK(tuning({{"HOME", "/home/a"}, {"HOCKET_TUNING", "off"}}) == "");
}

TEST_CASE("rank 0 shares what is about its number of ranks, and warns of what it cannot read") {
    const Folder folder;
    engine::write_tuning(folder.file(), example());
    engine::Options options;
    options.tuning = folder.file();
    options.world_size = 4;
    const TuningTable shared = engine::parse_tuning(engine::tuning_to_share(options));
    CHECK(shared == TuningTable{{four, example().at(four)}});
    options.world_size = 5;
    CHECK(engine::tuning_to_share(options) == "");
    options.world_size = 4;
    options.rank = 1;
    CHECK(engine::tuning_to_share(options) == "");

    options.rank = 0;
    folder.write("{\"format\": ");
    CHECK_THAT(stderr_of(folder, [&] { CHECK(engine::tuning_to_share(options) == ""); }),
               Contains("warning") && Contains(folder.file()) && Contains("cut off") &&
                   Contains("HOCKET_TUNING=off"));
    options.tuning = folder.file("none.json");
    CHECK(stderr_of(folder, [&] { CHECK(engine::tuning_to_share(options) == ""); }) == "");
    options.tuning_is_named = true;
    CHECK_THAT(stderr_of(folder, [&] { CHECK(engine::tuning_to_share(options) == ""); }),
               Contains("none.json is ignored: there is no such file"));
}

TEST_CASE("rank 0's table rules on all ranks, after a name and before the estimate") {
    const Folder folder;
    engine::write_tuning(folder.file("of_0"), of_three("ring"));
    engine::write_tuning(folder.file("of_1"), of_three("direct"));
    const auto outcomes =
        test::run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", ""}, {"HOCKET_TOPOLOGY", ""}}}, [&](int rank) {
            setenv("HOCKET_TUNING", rank == 2 ? "off" : folder.file(rank == 0 ? "of_0" : "of_1").c_str(), 1);
            const auto comm = engine::Communicator::create(engine::resolve({}));
            const std::string tuned = schedule_of(*comm, 64);
            expect(
                tuned.rfind("ring\ntuned: ring 12 us measured at 64 B (" + folder.file("of_0") + ")", 0) == 0,
                tuned);
            const std::string named = schedule_of(*comm, 64, "exchange");
            expect(named == "exchange", named);
            const std::string estimated = schedule_of(*comm, 1000);
            expect(estimated.find("(estimates)") != std::string::npos, estimated);
            expect(estimated.find("tuned") == std::string::npos, estimated);
            float one = 1, all = 0;
            comm->run(comm->plans().cached_plan({}, 1), &one, &all, 1);
            expect(all == 3, "a tuned sum is wrong");
        });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a tuned schedule that does not exist any more is one warning, and the estimate's choice") {
    const Folder folder;
    engine::write_tuning(folder.file(), of_three("gone"));
    const auto outcomes = test::run_ranks(
        {3, {{"HOCKET_TUNING", folder.file()}, {"HOCKET_PROVIDER_FOR_ALL", ""}}}, [&](int rank) {
            const std::string file = folder.file("stderr" + std::to_string(rank));
            expect(std::freopen(file.c_str(), "w", stderr) != nullptr, "no stderr");
            const auto comm = engine::Communicator::create(engine::resolve({}));
            for (const std::uint64_t count : {1, 20, 200}) {
                const std::string text = schedule_of(*comm, count);
                expect(text.find("(estimates)") != std::string::npos, text);
            }
            float one = 1, all = 0;
            comm->run(comm->plans().cached_plan({}, 1), &one, &all, 1);
            expect(all == 3, "a sum is wrong");
            std::fflush(stderr);
            std::ifstream stream(file);
            const std::string told(std::istreambuf_iterator<char>(stream), {});
            const auto first = told.find("warning: all_reduce cannot be run by gone");
            expect((first == std::string::npos) == (rank != 0), "rank 0 alone tells it: " + told);
            expect(told.find("warning", first + 7) == std::string::npos || rank != 0, "told twice: " + told);
        });
    CHECK(test::problems(outcomes) == "");
}
