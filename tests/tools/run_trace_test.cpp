// hocket-run's merge of the traces of several hosts' ranks: the clocks, and damaged files.
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/engine/record/trace_file.hpp"
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
    const record::Facts facts{{{"number", 0}, {"count", 5}},
                              {{"collective", "all_reduce"}, {"what", "\xff\n\""}}};
    for (int i = 0; i < 20; ++i) {
        const record::Moment began = (i + 1) * 1'000'001 + rank, ended = (i + 1) * 1'000'001 + 500'000;
        const std::string name = "all_reduce #" + std::to_string(i);
        if (i % 2 == 0) {
            file.add(0, began, ended, name, "collective", facts);
            continue;
        }
        file.begin(0, began, name, "collective", facts);
        file.end(0, ended, {.texts = {{"status", "success"}}});
    }
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
    CHECK(joined.remarks == "");
    std::size_t slices = 0;
    double first = 1e9;
    std::map<int, double> began;
    for (const Json& event : read_json(path)) {
        const std::string phase = event.at("ph");
        if (phase == "M") continue;
        const double ts = event.at("ts");
        first = std::min(first, ts);
        slices += phase != "E";
        began.try_emplace(event.at("pid"), 0);
        double& of_rank = began[event.at("pid")];
        if (phase == "B") of_rank = ts;
        if (phase == "B") continue;
        const double took = phase == "X" ? event.at("dur").get<double>() : ts - of_rank;
        CHECK(took == Approx(event.at("pid") == 1 ? 500 : 499.999).margin(1e-6));
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
            for (const Json& event : read_json(path))
                slices += event.at("ph") == "X" || event.at("ph") == "B";
            CHECK(slices == joined.slices);
            read += joined.slices > 0;
        } catch (const std::runtime_error&) {
            ++without;  // neither file names its owner
        }
    }
    CHECK(read > 300);
    CHECK(without > 0);
}

namespace {

// Slices of a host whose clock is ahead and too fast: an operation each 100 ms, with two steps that fill it.
void write_drifting(const std::string& folder, int rank, double per_second) {
    record::Origin origin = origin_of(rank);
    const auto shown = [&](double seconds) {
        return static_cast<record::Moment>((seconds * (1 + per_second) + rank * 1000) * 1e9);
    };
    {
        record::TraceFile file(folder, origin);
        for (int i = 1; i < 400; ++i) {
            const double began = i * 0.1, middle = began + 0.04, ended = began + 0.09;
            file.begin(0, shown(began), "all_reduce", "collective",
                       {{{"number", i}, {"count", 5}}, {{"collective", "all_reduce"}}});
            file.begin(0, shown(began), "first", "step", {});
            file.end(0, shown(middle), {});
            file.add(0, shown(middle), shown(ended), "second", "step", {});
            file.end(0, shown(ended), {.texts = {{"status", "success"}}});
        }
    }
    // All are written by this host: another clock's name makes it another one's.
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().string().find("rank-" + std::to_string(rank)) == std::string::npos) continue;
        std::ifstream before(entry.path());
        std::string text(std::istreambuf_iterator<char>(before), {});
        text.replace(text.find("\"clock\":\"") + 9, 1, std::to_string(rank));
        std::ofstream(entry.path()) << text;
    }
}

}  // namespace

TEST_CASE("what contains something still does when a clock that drifts has been put right") {
    const test::TemporaryFolder folder;
    write_drifting(folder.path(), 0, 0);
    write_drifting(folder.path(), 1, 50e-6);
    const std::string path = folder.path() + "/all.json";
    const tools::JoinedTrace joined = tools::join_traces(folder.path(), path);
    CHECK_THAT(joined.remarks, Catch::Contains("is +1000"));
    std::map<int, std::vector<double>> began;  // of open slices, by rank
    std::map<int, double> last_end;
    std::map<int, std::size_t> ended;
    for (const Json& event : read_json(path)) {
        if (event.at("ph") == "M") continue;
        const int pid = event.at("pid");
        const double ts = event.at("ts");
        auto& open = began[pid];
        CHECK(ts >= last_end[pid]);
        if (event.at("ph") == "B") {
            if (!open.empty()) CHECK(ts >= open.back());
            open.push_back(ts);
            continue;
        }
        last_end[pid] = ts;
        if (event.at("ph") == "X") {
            last_end[pid] += event.at("dur").get<double>() - 1e-6;  // decimals
            continue;
        }
        REQUIRE_FALSE(open.empty());
        open.pop_back();
        ++ended[pid];
    }
    CHECK(ended[1] == 2 * 399);
    CHECK(ended[2] == 2 * 399);
}

TEST_CASE("what was joined is no rank's file, a link stays one, and a pipe is written as it is") {
    const test::TemporaryFolder folder;
    write_trace(folder.path(), 0);
    const std::string inside = folder.path() + "/all.trace.json", link = folder.path() + "/link";
    for (int i = 0; i < 3; ++i) CHECK(tools::join_traces(folder.path(), inside).slices == 20);
    std::filesystem::create_symlink("all.trace.json", link);
    CHECK(tools::join_traces(folder.path(), link).slices == 20);
    CHECK(std::filesystem::is_symlink(link));
    CHECK_THROWS_WITH(tools::join_traces(folder.path(), "/dev/full"), Catch::Contains("No space left"));
    CHECK(std::filesystem::is_character_file("/dev/full"));
    CHECK_THROWS_WITH(tools::check_trace_file("/nonexistent/all.json"), Catch::Contains("No such file"));
    CHECK_THROWS(tools::check_trace_file(folder.path()));
    tools::check_trace_file(folder.path() + "/new");
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/new"));
    write_trace(folder.path(), 0);
    CHECK(tools::join_traces(folder.path(), inside).remarks == "");  // the same process
    const std::vector<int> nobodys = {1};
    CHECK_THROWS_WITH(tools::join_traces(folder.path(), inside, &nobodys),
                      Catch::Contains("no rank has made"));
}

TEST_CASE("a FIFO is neither waited for nor read, and is named") {
    const test::TemporaryFolder folder;
    const std::string fifo = folder.path() + "/rank-1.pid-1.0.trace.json", all = folder.path() + "/all.json";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK_THROWS_WITH(tools::join_traces(folder.path(), all),
                      Catch::Contains("passed over: " + fifo + " cannot be read: it is a FIFO") &&
                          Catch::Contains("there are no traces"));
    write_trace(folder.path(), 0);
    const auto joined = tools::join_traces(folder.path(), all);
    CHECK(joined.ranks == 1);
    CHECK_THAT(joined.remarks, Catch::Contains("passed over: " + fifo));
    tools::check_trace_file(fifo);
    CHECK_THROWS_WITH(tools::join_traces(folder.path(), fifo),
                      Catch::Contains(fifo + " cannot be written: it is a FIFO or pipe that nobody reads"));
    CHECK(std::filesystem::is_fifo(fifo));
    // Entries that others left under the names of new files cause no wait, either.
    REQUIRE(mkfifo((all + ".new").c_str(), 0600) == 0);
    CHECK(tools::join_traces(folder.path(), all).ranks == 1);
}

TEST_CASE("only this user may read a trace, unless the file was there with another mode") {
    const test::TemporaryFolder folder;
    const mode_t usual = umask(022);
    const auto is_mode = [](const std::filesystem::path& path, unsigned mode) {
        return std::filesystem::status(path).permissions() == std::filesystem::perms(mode);
    };
    write_trace(folder.path(), 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        CHECK(is_mode(entry.path(), 0600));
    const std::string all = folder.path() + "/all.json";
    tools::join_traces(folder.path(), all);
    CHECK(is_mode(all, 0600));
    REQUIRE(chmod(all.c_str(), 0644) == 0);
    tools::join_traces(folder.path(), all);
    CHECK(is_mode(all, 0644));
    umask(usual);
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
