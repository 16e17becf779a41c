// How hocket-run puts the traces of several hosts' ranks together: the clocks, and files that are damaged.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/record/trace_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"
#include "tools/run/clocks.hpp"
#include "tools/run/trace.hpp"

using namespace hocket;
using tools::Nanoseconds;
using Json = nlohmann::json;

namespace {

constexpr Nanoseconds us = 1000, ms = 1000 * us, s = 1000 * ms;

// A clock that is off, and runs too fast.
struct Clock {
    Nanoseconds off;
    double per_second;  // nanoseconds
    Nanoseconds shows(Nanoseconds time) const {
        return time + off + static_cast<Nanoseconds>(per_second * static_cast<double>(time) / 1e9);
    }
};

// Hosts whose ranks begin a collective at random times, and end it after the last has begun.
struct Job {
    std::vector<Clock> clocks;
    std::mt19937_64 random{5};

    Nanoseconds up_to(Nanoseconds most) {
        return static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(most));
    }

    tools::Clocks run(std::size_t collectives, Nanoseconds apart) {
        tools::Clocks compared(clocks.size());
        for (std::size_t i = 0; i < collectives; ++i) {
            const Nanoseconds time = static_cast<Nanoseconds>(i) * apart;
            std::vector<Nanoseconds> begun;
            for (std::size_t c = 0; c < clocks.size(); ++c) begun.push_back(time + up_to(200 * us));
            const Nanoseconds all = *std::ranges::max_element(begun);
            std::vector<tools::Clocks::Part> parts;
            for (std::size_t c = 0; c < clocks.size(); ++c)
                parts.push_back(
                    {c, clocks[c].shows(begun[c]), clocks[c].shows(all + 20 * us + up_to(100 * us))});
            compared.add(parts);
        }
        return compared;
    }
};

}  // namespace

TEST_CASE("clocks that are off and drift are put right within what is promised") {
    Job job{{{0, 0}, {-3600 * s, 20'000}, {5 * ms, -50'000}}};
    const auto corrections = job.run(3000, 50 * ms).corrections();
    REQUIRE(corrections.size() == 3);
    for (std::size_t c = 0; c < 3; ++c) {
        REQUIRE(corrections[c]);
        for (const auto& known : corrections[c]->known()) CHECK(known.within < 200 * us);
        for (Nanoseconds time = 5 * s; time < 145 * s; time += 777 * ms) {
            const Nanoseconds shown = job.clocks[c].shows(time);
            CHECK(std::abs(shown + corrections[c]->offset_at(shown) - time) < 400 * us);
        }
    }
}

TEST_CASE("a clock of a host that had nothing to do with the first one's is compared by way of others") {
    tools::Clocks compared(4);
    compared.add({{0, 1000, 3000}, {2, 51'000, 53'000}});
    compared.add({{2, 60'000, 61'000}, {1, 160'000, 161'000}});
    const auto corrections = compared.corrections();
    REQUIRE(corrections[1]);
    CHECK(std::abs(corrections[1]->offset_at(160'000) + 150'000) <= 3000);
    CHECK(corrections[1]->known().front().within <= 3000);
    CHECK_FALSE(corrections[3]);
}

namespace {

record::Origin origin_of(int rank) {
    record::Origin origin;
    origin.communicator = "c";
    origin.rank = rank;
    origin.size = 2;
    origin.job_ranks = {0, 1};
    origin.topology = "2m";
    origin.provider = "memory";
    origin.host = "host \"\xff\"";
    origin.pid = 100 + rank;
    return origin;
}

void write_trace(const std::string& folder, int rank) {
    record::TraceFile file(folder, origin_of(rank));
    file.name_row(0, "row");
    for (int i = 0; i < 20; ++i)
        file.add({.row = 0,
                  .name = "all_reduce #" + std::to_string(i),
                  .category = "collective",
                  .began = (i + 1) * 1'000'001 + rank,
                  .ended = (i + 1) * 1'000'001 + 500'000,
                  .texts = {{"collective", "all_reduce"}, {"status", "success"}, {"what", "\xff\n\""}},
                  .numbers = {{"number", i}, {"count", 5}}});
}

Json read_json(const std::string& path) {
    std::ifstream file(path);
    return Json::parse(file);
}

}  // namespace

TEST_CASE("the file has all slices, from 0, and is JSON whatever the texts are") {
    const test::TemporaryFolder folder;
    for (const int rank : {1, 0}) write_trace(folder.path() + "/ranks", rank);
    const std::string path = folder.path() + "/all.json";
    const tools::JoinedTrace joined = tools::join_traces(folder.path() + "/ranks", path);
    CHECK(joined.ranks == 2);
    CHECK(joined.slices == 40);
    CHECK(joined.unreadable == 0);
    CHECK(joined.clocks == "");
    std::size_t slices = 0;
    double first = 1e9;
    for (const Json& event : read_json(path)) {
        if (event.at("ph") != "X") continue;
        ++slices;
        first = std::min(first, event.at("ts").get<double>());
        CHECK(event.at("dur").get<double>() == Approx(event.at("pid") == 0 ? 500 : 499.999).margin(1e-6));
    }
    CHECK(slices == 40);
    CHECK(first == 0);
    CHECK(std::filesystem::exists(path + ".new") == false);
}

TEST_CASE("what is damaged in a trace is left out, and the rest is JSON") {
    const test::TemporaryFolder folder;
    const std::string ranks = folder.path() + "/ranks", path = folder.path() + "/all.json";
    for (const int rank : {0, 1}) write_trace(ranks, rank);
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& entry : std::filesystem::directory_iterator(ranks)) {
        std::ifstream file(entry.path());
        files.emplace_back(entry.path(), std::string(std::istreambuf_iterator<char>(file), {}));
    }
    std::mt19937 random(3);
    std::size_t read = 0, without = 0;
    for (int round = 0; round < 400; ++round) {
        for (const auto& [name, text] : files) {
            std::string damaged = text;
            if (round % 4 == 0) damaged.resize(random() % damaged.size());
            for (int i = 0; i < 6 && !damaged.empty(); ++i)
                damaged[random() % damaged.size()] = "0123456789\"{}[],:-ntx\n\xff"[random() % 23];
            std::ofstream(name) << damaged;
        }
        try {
            const tools::JoinedTrace joined = tools::join_traces(ranks, path);
            std::size_t slices = 0;
            for (const Json& event : read_json(path)) slices += event.at("ph") == "X";
            CHECK(slices == joined.slices);
            read += joined.slices > 0;
        } catch (const std::runtime_error&) {
            ++without;  // neither file says whose it is
        }
    }
    CHECK(read > 300);
    CHECK(without > 0);
}

TEST_CASE("a folder without traces, and a file that cannot be written, are errors that say so") {
    const test::TemporaryFolder folder;
    CHECK_THROWS_WITH(tools::join_traces(folder.path(), folder.path() + "/all.json"),
                      Catch::Contains("HOCKET_TRACE=" + folder.path()));
    write_trace(folder.path(), 0);
    CHECK_THROWS_WITH(tools::join_traces(folder.path(), "/nonexistent/all.json"),
                      Catch::Contains("/nonexistent/all.json"));
    CHECK_THROWS_WITH(record::TraceFile("/dev/null/folder", origin_of(0)), Catch::Contains("HOCKET_TRACE"));
}
