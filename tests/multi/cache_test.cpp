// hocket-cache as people use it: loaded samples lie on the disk, and its report on a folder is right.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "capi/hocket.h"
#include "tests/multi/process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Catch::Contains;
using hocket::test::Finished;
using Words = std::vector<std::string>;

namespace {

// A folder of its own, with "source" and "cache" in it; gone with its owner.
class Place {
  public:
    Place() {
        std::string name = std::string(HOCKET_TEST_FOLDER) + "/cache_test_XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
        fs::create_directory(path_ / "source");
    }
    ~Place() { fs::remove_all(path_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    std::string operator/(const std::string& name) const { return path_ / name; }
    std::string source() const { return path_ / "source"; }
    std::string cache() const { return path_ / "cache"; }

    // Files "0000", "0001", ... of different sizes: "sample 0 ", and so on to the end.
    std::uint64_t write_samples(int count) const {
        std::uint64_t bytes = 0;
        for (int i = 0; i < count; ++i) {
            std::string name = std::to_string(i), text;
            name.insert(0, 4 - name.size(), '0');
            while (text.size() < 40u + static_cast<unsigned>(i) * 97 % 9000) text += "sample " + name + " ";
            std::ofstream(fs::path(source()) / name) << text;
            bytes += text.size();
        }
        return bytes;
    }

    std::vector<std::string> segments() const {
        std::vector<std::string> paths;
        for (const auto& entry : fs::directory_iterator(cache()))
            if (entry.path().extension() == ".seg") paths.push_back(entry.path());
        return paths;
    }

  private:
    fs::path path_;
};

Finished run(Words options, const hocket::test::Process::Environment& environment = {}) {
    options.insert(options.begin(), HOCKET_CACHE);
    const auto result = hocket::test::run(options, 100s, environment);
    REQUIRE(result.in_time);
    return result;
}

Finished warm(const Place& place, const Words& more = {}) {
    Words words{"warm", place.cache(), "--source", place.source(), "--disk", "300MB", "--memory", "64MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
}

nlohmann::json json_of(const Finished& result) {
    INFO(result.out << result.err);
    REQUIRE(nlohmann::json::accept(result.out));
    return nlohmann::json::parse(result.out);
}

nlohmann::json facts_of(const Place& place) {
    return json_of(run({"stat", place.cache(), "--json"}));
}

// Changes one byte of a file.
void damage(const std::string& path, std::uint64_t offset) {
    const int fd = open(path.c_str(), O_RDWR);
    char byte = 0;
    REQUIRE(pread(fd, &byte, 1, static_cast<off_t>(offset)) == 1);
    byte = static_cast<char>(byte ^ 4);
    REQUIRE(pwrite(fd, &byte, 1, static_cast<off_t>(offset)) == 1);
    close(fd);
}

std::string read(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The number that stands before the text's first occurrence, and after a space or the beginning; 0: it is not
// there.
std::uint64_t number_before(const std::string& in, const std::string& text) {
    const std::size_t end = in.find(text);
    if (end == std::string::npos || end == 0) return 0;
    const std::size_t begin = in.rfind(' ', end - 1);
    return std::stoull(in.substr(begin == std::string::npos ? 0 : begin + 1));
}

}  // namespace

TEST_CASE("warm puts all samples on the disk, and the second time reads nothing from the source") {
    const Place place;
    const std::uint64_t bytes = place.write_samples(300);
    const auto first = warm(place);
    INFO(first.out << first.err);
    REQUIRE(first.exit_code == 0);
    CHECK_THAT(first.out, Contains("300 of 300 samples on disk, 0 of them before; 300 (") &&
                              Contains("read from the source, in"));
    CHECK(first.err == "");

    const auto second = warm(place);
    CHECK(second.exit_code == 0);
    CHECK_THAT(second.out, Contains("300 of 300 samples on disk, 300 of them before; 0 (0 B) read from"));

    const auto facts = facts_of(place);
    REQUIRE(facts["datasets"].size() == 1);
    CHECK(facts["datasets"][0]["samples"] == 300);
    CHECK(facts["datasets"][0]["sample_bytes"] == bytes);
    CHECK(facts["datasets"][0]["open_segments"] == 0);
    CHECK(facts["datasets"][0]["sealed_segments"] == place.segments().size());
    CHECK(facts["datasets"][0]["bad_entries"] == 0);
    CHECK(facts["used_bytes"] >= bytes);
    CHECK(facts["damaged"].empty());
    const auto table = run({"stat", place.cache()});
    CHECK_THAT(table.out, Contains("1 dataset\n") && Contains(facts["datasets"][0]["dataset"]));

    const auto verified = json_of(run({"verify", place.cache(), "--json"}));
    CHECK(verified["samples"] == 300);
    CHECK(verified["sample_bytes"] == bytes);
    CHECK(verified["complete"] == true);
    CHECK(verified["findings"].empty());
    const auto text = run({"verify", place.cache()});
    CHECK(text.exit_code == 0);
    CHECK_THAT(text.out, Contains("with 300 samples") && Contains("all are right"));
}

TEST_CASE("another dataset, or a source that has changed, lies beside the first") {
    const Place place;
    place.write_samples(20);
    REQUIRE(warm(place).exit_code == 0);
    REQUIRE(warm(place, {"--dataset", "v2"}).exit_code == 0);
    const auto datasets = facts_of(place)["datasets"];
    REQUIRE(datasets.size() == 2);
    CHECK(std::set<std::string>{datasets[0]["label"], datasets[1]["label"]} ==
          std::set<std::string>{place.source(), "v2 from " + place.source()});
    const std::string table = run({"stat", place.cache()}).out;
    for (const auto& dataset : datasets) {
        const auto lines = hocket::test::lines_with_prefix(table, dataset["dataset"]);
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].ends_with("  " + dataset["label"].get<std::string>()));
    }
    std::ofstream(place.source() + "/0003") << "changed";
    const auto changed = warm(place);
    CHECK_THAT(changed.out, Contains("20 of 20 samples on disk, 0 of them before; 20 ("));
    CHECK(facts_of(place)["datasets"].size() == 3);
}

TEST_CASE("a folder that is no cache is an error, an empty cache is not") {
    const Place place;
    fs::create_directory(place.cache());
    std::ofstream(place / "cache/notes") << "of somebody else";
    for (const Words& words : {Words{"stat"}, {"verify"}, {"stat", "--json"}, {"verify", "--json"}}) {
        Words command = words;
        command.insert(command.begin() + 1, place.cache());
        fs::remove(place / "cache/lock");
        const auto none = run(command);
        CHECK(none.exit_code == 1);
        CHECK(none.out == "");
        CHECK_THAT(none.err, Contains("there is no cache in " + place.cache()) &&
                                 Contains("HOCKET_CACHE_FOLDER") && Contains("hocket-cache warm"));
        std::ofstream(place / "cache/lock").flush();
        const auto empty = run(command);
        CHECK(empty.exit_code == 0);
        CHECK(empty.err == "");
        CHECK(empty.out != "");
    }
}

TEST_CASE("what is none of the cache's files is named as foreign, and nobody waits for it") {
    const Place place;
    place.write_samples(20);
    REQUIRE(warm(place).exit_code == 0);
    const std::string fifo = place / "cache/z.seg", link = place / "cache/" + std::string(32, 'e') + ".seg";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    fs::create_symlink("z.seg", link);
    fs::create_directory(place / "cache/folder.open");
    std::ofstream(place / "cache/notes.seg") << "of somebody else";
    const Words expected{link + ": a link", place / "cache/folder.open" + ": a folder",
                         place / "cache/notes.seg" + ": a file that no cache has made", fifo + ": a FIFO"};
    for (const char* command : {"stat", "verify"}) {
        const auto result = run({command, place.cache(), "--json"});
        CHECK(result.exit_code == 0);
        CHECK(json_of(result)["foreign"].get<Words>() == expected);
        const auto text = run({command, place.cache()});
        CHECK(text.exit_code == 0);
        CHECK_THAT(text.out, Contains("foreign: " + fifo + ": a FIFO; caches pass it over\n"));
    }
    CHECK(facts_of(place)["damaged"].empty());
    CHECK_THAT(warm(place).out, Contains("20 of 20 samples on disk, 20 of them before"));
}

TEST_CASE("a packed file is a source") {
    const Place place;
    std::ofstream(place / "data.bin") << "onetwothree";
    std::ofstream(place / "data.idx") << "0 3\n3 3\n6 5\n";
    const Words words{"warm",    place.cache(),      "--source", place / "data.bin",
                      "--index", place / "data.idx", "--disk",   "100MB"};
    CHECK_THAT(run(words).out, Contains("3 of 3 samples on disk, 0 of them before; 3 (11 B) read"));
    CHECK(facts_of(place)["datasets"][0]["label"] == place / "data.bin");
    const auto without = run({"warm", place.cache(), "--source", place / "data.bin"});
    CHECK(without.exit_code == 1);
    CHECK_THAT(without.err, Contains("data.bin.idx"));
    std::ofstream(place / "data.idx") << "0 3\n3 300\n";
    const auto wrong = run(words);
    CHECK(wrong.exit_code == 1);
    CHECK_THAT(wrong.err, Contains("data.idx:2: 300 bytes at offset 3"));
}

TEST_CASE("verify finds every kind of damage, says where, and warm loads what is lost again") {
    const Place place;
    place.write_samples(100);
    REQUIRE(warm(place).exit_code == 0);
    const std::string segment = place.segments().at(0), bytes = read(segment);
    const auto verify = [&] { return json_of(run({"verify", place.cache(), "--json"})); };
    const auto undo = [&] { std::ofstream(segment, std::ios::binary) << bytes; };

    const std::size_t payload = bytes.find("sample 00");
    REQUIRE(payload != std::string::npos);
    damage(segment, payload + 12);
    const auto of_payload = verify();
    CHECK(of_payload["bad_samples"] == 1);
    CHECK(of_payload["bad_segments"] == 0);
    REQUIRE(of_payload["findings"].size() == 1);
    CHECK_THAT(of_payload["findings"][0], Contains(segment + ": sample ") &&
                                              Contains("at offset " + std::to_string(payload)) &&
                                              Contains("fails its checksum"));
    const auto text = run({"verify", place.cache()});
    CHECK(text.exit_code == 1);
    CHECK_THAT(text.out, Contains("0 segments and 1 sample damaged"));
    undo();

    damage(segment, 4096 + 3);  // an entry of the index
    CHECK(verify()["bad_samples"] == 1);
    CHECK(verify()["bad_segments"] == 1);
    CHECK(facts_of(place)["datasets"][0]["bad_entries"] == 1);
    undo();

    std::string without_entry = bytes;
    without_entry.replace(4096, 48, 48, '\0');
    std::ofstream(segment, std::ios::binary) << without_entry;
    CHECK(verify()["bad_samples"] == 0);
    CHECK(verify()["bad_segments"] == 1);
    undo();

    for (const std::uint64_t offset : {std::uint64_t{20}, bytes.size() - 4080}) {  // header, footer
        damage(segment, offset);
        CHECK(verify()["bad_segments"] == 1);
        CHECK(facts_of(place)["damaged"].size() == 1);
        undo();
    }
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{100}, bytes.size() - 4096}) {
        fs::resize_file(segment, size);
        CHECK(verify()["bad_segments"] == 1);
        undo();
    }
    CHECK(verify()["findings"].empty());

    damage(segment, payload + 12);
    const auto again = warm(place);
    CHECK(again.exit_code == 0);
    CHECK_THAT(again.out, Contains("100 of 100 samples on disk, 99 of them before; 1 ("));
}

namespace {

// A job that gets sample 3, if there is a source, and puts sample 1000.
void get_and_put(const std::string& folder, hkt_cache_options how) {
    const std::string text = "a put sample";
    how.folder = folder.c_str();
    how.memory_bytes = 8 << 20;
    how.disk_bytes = 100 << 20;
    hkt_cache* cache = nullptr;
    REQUIRE(hkt_cache_open(&how, &cache) == HKT_SUCCESS);
    if (how.source != nullptr) {
        hkt_sample sample;
        REQUIRE(hkt_cache_get(cache, 3, &sample) == HKT_SUCCESS);
        hkt_cache_release(cache, &sample, 1);
    }
    REQUIRE(hkt_cache_put(cache, 1000, text.data(), text.size()) == HKT_SUCCESS);
    hkt_cache_close(cache);
}

void damage_text(const Place& place, const std::string& text) {
    for (const std::string& path : place.segments())
        if (const std::size_t at = read(path).find(text); at != std::string::npos) damage(path, at);
}

hkt_status read_nothing(void*, uint64_t, hkt_cache_value*) {
    return HKT_ERROR_NOT_FOUND;
}

}  // namespace

TEST_CASE("verify tells what the source has still from what only a put brought") {
    const Place place;
    place.write_samples(5);
    const std::string source = place.source();
    hkt_cache_options how = HKT_CACHE_OPTIONS_INIT;
    how.source = source.c_str();
    get_and_put(place.cache(), how);
    damage_text(place, "sample 0003");
    damage_text(place, "a put sample");
    const auto found = json_of(run({"verify", place.cache(), "--json"}));
    CHECK(found["bad_samples"] == 2);
    CHECK(found["bad_samples_in_source"] == 1);
    CHECK(found["bad_samples_only_put"] == 1);
    CHECK_THAT(run({"verify", place.cache()}).out,
               Contains("fails its checksum; it was put, and is in no source\n") &&
                   Contains("; 1 sample will be read from the source again when a job needs it;") &&
                   Contains("; 1 sample was put, and in no source: put it again;"));
}

TEST_CASE("a job says how much on the disk is damaged, and what became of its space") {
    const Place place;
    hkt_cache_options how = HKT_CACHE_OPTIONS_INIT;
    get_and_put(place.cache(), how);
    damage_text(place, "a put sample");
    const std::string folder = place.cache();
    how.folder = folder.c_str();
    hkt_cache* cache = nullptr;
    REQUIRE(hkt_cache_open(&how, &cache) == HKT_SUCCESS);
    hkt_sample sample;
    CHECK(hkt_cache_get(cache, 1000, &sample) == HKT_ERROR_NOT_FOUND);
    hkt_cache_verification verification;
    REQUIRE(hkt_cache_verify(cache, nullptr, nullptr, &verification, sizeof verification) == HKT_SUCCESS);
    hkt_cache_stats stats;
    REQUIRE(hkt_cache_get_stats(cache, &stats, sizeof stats) == HKT_SUCCESS);
    CHECK_THAT(stats.damage, Contains(folder + ": 1 record (12 bytes) proved damaged") &&
                                 Contains("bytes of the disk were given back for them so far"));
    CHECK(std::string(stats.trouble) == stats.damage);
    CHECK(place.segments().empty());
    hkt_cache_close(cache);
}

TEST_CASE("verify promises nothing of a cache without a source, and little of one with a function") {
    for (const bool has_function : {false, true}) {
        const Place place;
        hkt_cache_options how = HKT_CACHE_OPTIONS_INIT;
        how.dataset = "numbers";
        if (has_function) how.read = read_nothing;
        get_and_put(place.cache(), how);
        damage_text(place, "a put sample");
        const auto found = json_of(run({"verify", place.cache(), "--json"}));
        CHECK(found["bad_samples"] == 1);
        CHECK(found["bad_samples_in_source"] == 0);
        CHECK(found["bad_samples_only_put"] == (has_function ? 0 : 1));
        const std::string text = run({"verify", place.cache()}).out;
        CHECK_THAT(text, !Contains("when a job needs it"));
        CHECK_THAT(text, Contains(has_function
                                      ? "; 1 sample will be read from the source again, if the source has it;"
                                      : "; 1 sample was put, and in no source: put it again;"));
    }
}

TEST_CASE("a damaged sample that lies elsewhere, too, is no loss, and no second sample") {
    const Place place;
    const std::uint64_t bytes = place.write_samples(100);
    REQUIRE(warm(place).exit_code == 0);
    const std::string segment = place.segments().at(0);
    const std::size_t payload = read(segment).find("sample 00");
    REQUIRE(payload != std::string::npos);
    damage(segment, payload + 12);
    CHECK(run({"verify", place.cache()}).exit_code == 1);
    REQUIRE(warm(place).exit_code == 0);

    const auto text = run({"verify", place.cache()});
    CHECK(text.exit_code == 0);
    CHECK_THAT(text.out,
               Contains(segment + ": sample ") &&
                   Contains("another segment has it too, and there it is right") &&
                   Contains("with 100 samples") &&
                   Contains("no sample is lost: 1 sample damaged, and the folder has an intact copy of it"));
    const auto verified = run({"verify", place.cache(), "--json"});
    CHECK(verified.exit_code == 0);
    CHECK(json_of(verified)["samples"] == 100);
    CHECK(json_of(verified)["bad_samples"] == 0);
    CHECK(json_of(verified)["replaced_samples"] == 1);
    CHECK(facts_of(place)["datasets"][0]["samples"] == 100);
    CHECK(facts_of(place)["datasets"][0]["sample_bytes"] == bytes);

    REQUIRE(warm(place, {"--dataset", "v2"}).exit_code == 0);
    for (const std::string& path : place.segments())
        for (std::size_t at = 0; (at = read(path).find("sample 0007", at)) != std::string::npos; at += 4096)
            damage(path, at + 12);  // of both datasets
    const auto both = run({"verify", place.cache(), "--json"});
    CHECK(both.exit_code == 1);
    CHECK(json_of(both)["bad_samples"] >= 2);
}

TEST_CASE("a disk that is too small is said, and its limit holds") {
    const Place place;
    for (int i = 0; i < 40; ++i)
        std::ofstream(place.source() + "/" + std::to_string(i)) << std::string(1 << 20, 'x');
    const auto result = run({"warm", place.cache(), "--source", place.source(), "--disk", "8MiB"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Contains("the disk takes no more: ") && Contains("--disk"));
    CHECK(facts_of(place)["used_bytes"] <= 8 << 20);
}

TEST_CASE("a disk that takes no more ends the reading of the source") {
    const Place place;
    for (int i = 0; i < 3000; ++i) {
        std::ofstream(place.source() + "/" + std::to_string(i)).flush();
        fs::resize_file(place.source() + "/" + std::to_string(i), 256 << 10);
    }
    for (const char* limit : {"10", "8MiB"}) {
        const auto result =
            run({"warm", place.cache(), "--source", place.source(), "--disk", limit, "--memory", "64MiB"});
        INFO(result.out << result.err);
        CHECK(result.exit_code == 1);
        CHECK_THAT(result.err, Contains("the disk takes no more: "));
        CHECK(number_before(result.out, " of 3000 samples on disk") +
                  number_before(result.out, " not stored") ==
              number_before(result.out, " ("));
        CHECK(number_before(result.out, " not stored") < 2900);
    }
}

TEST_CASE("samples that cannot be loaded are named, the others are loaded") {
    const Place place;
    place.write_samples(50);
    for (const char* name : {"x1", "x2", "x3", "x4", "x5", "x6", "x7"}) {
        std::ofstream(place.source() + "/" + name) << "too large";
        fs::resize_file(place.source() + "/" + name, 100 << 20);  // than the memory
    }
    const auto result = warm(place);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.out, Contains("50 of 57 samples on disk"));
    CHECK(hocket::test::lines_with_prefix(result.err, "hocket-cache: sample 5").size() == 1);
    CHECK_THAT(result.err, Contains("and 6 more failed like it"));
}

TEST_CASE("a source that fails again and again is given up, and the failures are counted once") {
    const Place place;
    std::ofstream(place / "data.bin").flush();
    fs::resize_file(place / "data.bin", 100 << 20);
    std::ofstream index(place / "data.idx");
    for (int i = 0; i < 300'000; ++i) index << "0 104857600\n";  // larger than the memory
    index.close();
    const auto result = run({"warm", place.cache(), "--source", place / "data.bin", "--index",
                             place / "data.idx", "--disk", "100MB", "--memory", "64MiB"});
    CHECK(result.exit_code == 1);
    const std::uint64_t failures = number_before(result.err, " failures");
    CHECK(failures < 300'000);
    CHECK(number_before(result.err, " more failed like it") + 1 == failures);
}

TEST_CASE("warm asks the servers that a job would ask") {
    const Place place;
    place.write_samples(50);
    hocket::test::Process server({HOCKET_CACHE, "serve", place / "served", "--source", place.source(),
                                  "--disk", "100MB", "--listen", "127.0.0.1:0"},
                                 {{"HOCKET_SECRET", "s"}});
    REQUIRE(server.wait_for_output("stop with Ctrl-C", 60s));
    const std::string port =
        std::to_string(std::stoi(server.output_after("HOCKET_CACHE_SERVERS=127.0.0.1:")));
    const Words words{"warm", place.cache(), "--source", place.source(), "--disk", "100MB"};
    const auto asking = run(words, {{"HOCKET_SECRET", "s"}, {"HOCKET_CACHE_SERVERS", "127.0.0.1:" + port}});
    INFO(asking.out << asking.err);
    CHECK(asking.exit_code == 0);
    CHECK_THAT(asking.out,
               Contains("50 of 50 samples on disk") && Contains("; 0 (0 B) read from the source, 50 ("));
    CHECK_THAT(asking.out, Contains(") from servers"));
    kill(server.pid(), SIGINT);
    const auto served = server.finish(60s);
    CHECK_THAT(served.out, Contains("ended; 50 samples served; of this dataset 50 on disk, ") &&
                               Contains("the folder takes up "));

    fs::remove_all(place.cache());
    Words without = words;
    without.insert(without.end(), {"--servers", "127.0.0.1:" + port});
    const auto alone = run(without, {{"HOCKET_SECRET", "s"}});
    CHECK(alone.exit_code == 0);
    CHECK_THAT(alone.out, Contains("; 50 (") && Contains("0 (0 B) from servers"));
    CHECK_THAT(alone.err, Contains("servers failed to answer for "));
    const auto wrong = run(words, {{"HOCKET_SECRET", "s"}, {"HOCKET_CACHE_SERVERS", "bla"}});
    CHECK(wrong.exit_code == 1);
    CHECK_THAT(wrong.err, Contains("\"bla\" is no server"));
    const auto bare = run(words, {{"HOCKET_SECRET", "s"}, {"HOCKET_CACHE_SERVERS", "::1:7000"}});
    CHECK_THAT(bare.err, Contains("\"::1:7000\" is no server") && Contains("[fd00::5]:7000"));
}

TEST_CASE("Ctrl-C keeps what is there") {
    const Place place;
    place.write_samples(9000);
    hocket::test::Process process(
        {HOCKET_CACHE, "warm", place.cache(), "--source", place.source(), "--disk", "300MB", "--depth", "1"},
        {});
    const auto has_begun = [&] {
        return fs::exists(place.cache()) && fs::directory_iterator(place.cache()) != fs::directory_iterator();
    };
    REQUIRE(hocket::test::eventually(has_begun));
    kill(process.pid(), SIGINT);
    const auto result = process.finish(100s);
    INFO(result.out << result.err);
    REQUIRE(result.in_time);
    if (result.exit_code == 0) HOCKET_SKIP("it had loaded everything before the signal came");
    CHECK(result.exit_code == 130);
    CHECK_THAT(result.err, Contains("interrupted; samples on the disk stay there"));
    CHECK(run({"verify", place.cache()}).exit_code == 0);
    CHECK_THAT(warm(place).out, Contains("9000 of 9000 samples on disk"));
}

TEST_CASE("an interrupted verify does not say that all is right") {
    const Place place;
    place.write_samples(5000);
    REQUIRE(warm(place).exit_code == 0);
    hocket::test::Process process({HOCKET_CACHE, "verify", place.cache()});
    const auto waits_for_signals = [&] {
        return read("/proc/" + std::to_string(process.pid()) + "/status").find("SigBlk:\t0000000000004002") !=
               std::string::npos;
    };
    static_cast<void>(hocket::test::eventually(waits_for_signals));  // or it is at its end already
    kill(process.pid(), SIGINT);
    const auto result = process.finish(100s);
    INFO(result.out << result.err);
    REQUIRE(result.in_time);
    if (result.exit_code == 0) HOCKET_SKIP("it had checked everything before the signal came");
    CHECK(result.exit_code == 130);
    CHECK_THAT(result.out, Contains(", then interrupted; all that were checked so far are right"));
    CHECK_THAT(result.err, Contains("interrupted; the rest was not checked"));
}

TEST_CASE("the bar is for terminals") {
    const Place place;
    place.write_samples(100);
    CHECK_THAT(warm(place).err, !Contains("\r") && !Contains("%"));
    const std::string command = std::string(HOCKET_CACHE) + " verify " + place.cache();
    const auto result = hocket::test::run({"script", "-qec", "stty cols 100; " + command, "/dev/null"}, 100s);
    if (result.exit_code == 127) HOCKET_SKIP("there is no script(1) to give it a terminal");
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out,
               Contains("\r[") && Contains(" %  ") && Contains("\r\x1b[K") && Contains("all are right"));
}

TEST_CASE("serve says how it is reached, and ends at a signal") {
    const Place place;
    place.write_samples(10);
    const Words words{"serve",  place.cache(), "--source", place.source(),
                      "--disk", "100MB",       "--listen", "127.0.0.1:0"};
    const auto secretless = run(words, {{"HOCKET_SECRET", ""}});
    CHECK(secretless.exit_code == 1);
    CHECK_THAT(secretless.err, Contains("HOCKET_SECRET is not set"));
    for (const int signal : {SIGINT, SIGTERM}) {
        Words command = words;
        command.insert(command.begin(), HOCKET_CACHE);
        hocket::test::Process process(command,
                                      {{"HOCKET_SECRET", "s"}, {"HOCKET_CACHE_SERVERS", "not asked"}});
        REQUIRE(process.wait_for_output("stop with Ctrl-C", 60s));
        CHECK(std::stoi(process.output_after("HOCKET_CACHE_SERVERS=127.0.0.1:")) > 0);
        kill(process.pid(), signal);
        const auto result = process.finish(60s);
        REQUIRE(result.in_time);
        CHECK(result.exit_code == 0);
        CHECK_THAT(result.out,
                   Contains("serving 10 samples of " + place.source()) && Contains("ended; 0 samples"));
    }
}

TEST_CASE("a wrong command line is said before anything is done") {
    const Place place;
    const auto refused = [&](const Words& words, const std::string& text) {
        const auto result = run(words);
        INFO(result.out << result.err);
        CHECK(result.exit_code == 2);
        CHECK_THAT(result.err, Contains(text));
    };
    const Words warm{"warm", place.cache(), "--source", place.source()};
    const auto with = [&](const Words& more) {
        Words words = warm;
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    refused({}, "a command is missing; commands: warm, stat, verify, serve");
    refused({"bogus"}, "there is no command bogus; commands: warm, stat, verify, serve");
    refused({"warm", place.cache()}, "--source");
    refused(with({"--disk", "many"}), "--disk");
    refused(with({"--disk", "-1GiB"}), "--disk: a size must be 0 or more: '-1GiB'");
    refused(with({"--memory", "-5"}), "--memory: a size must be 0 or more: '-5'");
    refused(with({"--disk", "0"}), "no room");
    refused(with({"--memory", "99999999TiB"}), "--memory");
    refused(with({"--depth", "0"}), "--depth");
    refused(with({"--depth", "-1"}), "--depth");
    refused({"stat", place / "missing"}, "missing");
    const auto nowhere = run({"index", place / "x.index", place / "missing"});
    CHECK(nowhere.exit_code == 1);
    CHECK_THAT(nowhere.err, Contains("hocket-cache: the source " + (place / "missing") +
                                     " cannot be looked at: No such file or directory; check"));
    for (const char* address : {"host", "host:", "host:x", "host:65536", "host:-1", "::1:80", "1:2:3"})
        refused({"serve", place.cache(), "--source", place.source(), "--listen", address}, "is no address");
    CHECK_FALSE(fs::exists(place.cache()));
    CHECK(run({"--version"}).out.starts_with("hocket-cache 0."));
    CHECK_THAT(run({"--help"}).out, Contains("hocket-cache warm /nvme/cache --source"));
    const auto empty = run(warm);
    CHECK(empty.exit_code == 1);
    CHECK_THAT(empty.err, Contains("there are no files below"));
}
