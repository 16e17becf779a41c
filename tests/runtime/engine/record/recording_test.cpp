#include "runtime/engine/record/recording.hpp"

#include <filesystem>
#include <random>

#include "runtime/base/error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using record::Recording;

namespace {

Recording example() {
    Recording recording;
    recording.origin = {"host:1:0", 1, 2, {4, 2}, "2m", "memory", "host", 77, 70};
    recording.reason = "request";
    recording.request = "hocket-run 5 1";
    recording.written = 1'000'000'000;
    recording.failure = "rank 0 was lost: \xff not UTF-8";
    recording.lost = 0;
    recording.started = 12;
    record::Label label;
    label.collective = "broadcast";
    label.schedule = "tree";
    label.topology = "2m";
    label.type = "float32";
    label.root = 0;
    label.spreads = true;
    label.ranks = 2;
    record::Times in_flight{900'000'000, std::nullopt, "in flight",
                            record::Place{"waiting", 0, 3, 9, "tree.sched:4", "x : 0 -> r"}};
    recording.collectives.push_back({label, 10, 100, {800'000'000, 800'000'010, "success"}});
    recording.collectives.push_back({label, 11, 200, in_flight});
    recording.messages.push_back({true, 0, 7, 4000, in_flight});
    return recording;
}

}  // namespace

TEST_CASE("a recording that was written is read as it was") {
    const Recording before = example();
    const auto after = record::parse_recording(record::to_json(before));
    REQUIRE(after);
    CHECK(record::to_json(*after) == record::to_json(before));
    CHECK(after->origin.job_rank() == 2);
    CHECK(record::name_of(after->origin) == "rank 1 of the group of ranks 4, 2");
    CHECK(record::describe(after->collectives[1].label, 11, 200) ==
          "broadcast #11 (tree on 2m, float32 from rank 0, 200 elements)");
    CHECK(after->collectives[1].times.place->location == "tree.sched:4");
    CHECK_FALSE(after->collectives[1].times.ended);
    CHECK(after->messages[0].times.place->waits_for == 0);
}

TEST_CASE("a text that is no whole recording is none") {
    const std::string text = record::to_json(example());
    for (std::size_t bytes = 0; bytes + 2 < text.size(); ++bytes)
        CHECK_FALSE(record::parse_recording(text.substr(0, bytes)));
    CHECK_FALSE(record::parse_recording(R"({"hocket recording": "1"})"));
    CHECK_FALSE(record::parse_recording(R"({"hocket recording": 2})"));
    CHECK_FALSE(record::parse_recording(R"({"hocket recording": 1, "origin": []})"));
}

TEST_CASE("a damaged recording is read or is none") {
    std::mt19937 random(7);
    const std::string text = record::to_json(example());
    std::size_t read = 0;
    for (int i = 0; i < 3000; ++i) {
        std::string damaged = text;
        for (int byte = 0; byte < 2; ++byte)
            damaged[random() % damaged.size()] = "0123456789\"{}[],:-ntx"[random() % 21];
        const auto recording = record::parse_recording(damaged);
        if (!recording) continue;
        ++read;
        CHECK(record::name_of(recording->origin).starts_with("rank "));
        CHECK(recording->origin.job_rank() == recording->origin.job_rank());
    }
    CHECK(read > 0);
    CHECK(read < 3000);
}

TEST_CASE("a recording takes the place of the one before, or the error names the file") {
    const test::TemporaryFolder folder;
    const std::string path = (std::filesystem::path(folder.path()) / "rank.json").string();
    record::save(example(), path);
    record::save(example(), path);
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
    CHECK(files == 1);
    CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0600));
    CHECK_THROWS_WITH(record::save(example(), "/nonexistent/rank.json"),
                      Catch::Contains("/nonexistent/rank.json"));
}
