#include "runtime/cache/directory/directory.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <thread>
#include <utility>

#include "runtime/cache/segments/space.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

namespace {

const std::vector<std::uint64_t> all_sizes{0, 1, 7, 8, 100, 511, 4095, 4096, 4097, 100'000, 3'000'000};

}  // namespace

TEST_CASE("payloads of all sizes are found, before and after the folder is opened anew") {
    const Files files;
    const TemporaryFolder folder;
    const auto check = [&](Directory& directory) {
        for (std::uint64_t key = 0; key < all_sizes.size(); ++key)
            CHECK(get(directory, files, key) == payload_of(key, all_sizes[key]));
        CHECK_FALSE(directory.find(all_sizes.size()));
        CHECK(directory.keys().size() == all_sizes.size());
        CHECK(directory.stats().corrupt == 0);
        CHECK(directory.stats().records == all_sizes.size());
    };
    {
        Directory directory(files, options_for(folder.path()));
        for (std::uint64_t key = 0; key < all_sizes.size(); ++key)
            REQUIRE(put(directory, files, key, payload_of(key, all_sizes[key])));
        check(directory);
        CHECK(directory.stats().written == all_sizes.size());
        CHECK(directory.stats().trouble == "");
    }
    CHECK(files_with(folder.path(), ".seg").size() == 2);
    CHECK(files_with(folder.path(), ".open").empty());
    Directory again(files, options_for(folder.path()));
    check(again);
    CHECK(again.stats().segments == 2);
    Directory reader(files, options_for(folder.path(), 0, false));
    check(reader);
    CHECK_FALSE(reader.reserve(77, 10));
    CHECK(reader.stats().not_written == 1);
    CHECK(reader.stats().trouble == "");  // as it was asked for
}

TEST_CASE("large payloads go round the page cache where the file system allows it, small ones through it") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path()));
    const auto small = directory.reserve(1, 4095), large = directory.reserve(2, 4097);
    REQUIRE(small);
    REQUIRE(large);
    CHECK_FALSE(small->direct);
    CHECK(small->unit == 1);
    CHECK(small->reserved >= 4095);
    CHECK(small->segment != large->segment);
    const Descriptor probe(files.open(folder.path() + "/lock", O_RDWR | O_DIRECT));
    CHECK(large->direct == (probe.get() >= 0 && direct_alignment(probe.get()) > 0));
    CHECK(large->offset % large->unit == 0);
    CHECK(large->reserved % large->unit == 0);
    directory.commit(*small, payload_of(1, 4095));
    directory.abandon(*large, EIO);
}

TEST_CASE("two open folders see each other's records without sealing, and know a sealed one again") {
    const Files files;
    const TemporaryFolder folder;
    auto writer = std::make_unique<Directory>(files, options_for(folder.path()));
    Directory reader(files, options_for(folder.path()));
    for (std::uint64_t key = 0; key < 3000; ++key) {
        const std::uint64_t size = key % 10 == 0 ? 5000 : 20;
        REQUIRE(put(*writer, files, key, payload_of(key, size)));
        if (key % 100 != 0) continue;
        reader.refresh();
        REQUIRE(get(reader, files, key) == payload_of(key, size));
    }
    reader.refresh();
    CHECK(reader.stats().records == 3000);
    CHECK(reader.stats().segments == 2);
    writer->close();
    reader.refresh();
    CHECK(reader.stats().segments == 2);
    CHECK(reader.stats().records == 3000);
    CHECK(reader.stats().corrupt == 0);
    writer.reset();
    CHECK(get(reader, files, 2990) == payload_of(2990, 5000));
}

TEST_CASE("what others create is found at once, however many create") {
    const Files files;
    const TemporaryFolder folder;
    constexpr std::uint64_t limit = 100 * MiB;  // small segments
    std::deque<Directory> all;
    for (int i = 0; i < 3; ++i) all.emplace_back(files, options_for(folder.path(), limit));
    for (std::uint64_t key = 0; key < 60; ++key) {
        REQUIRE(put(all[key % 3], files, key, payload_of(key, 400'000)));
        Directory& reader = all[(key + 1 + key / 3 % 2) % 3];
        reader.refresh();
        REQUIRE(get(reader, files, key) == payload_of(key, 400'000));
    }
    CHECK(all[0].stats().segments > 20);
}

TEST_CASE("who has the folder open goes on where it is emptied, and finds what others write there then") {
    const Files files;
    const TemporaryFolder folder;
    Directory reader(files, options_for(folder.path()));
    for (std::uint64_t key = 0; key < 3; ++key) {
        Directory writer(files, options_for(folder.path()));
        REQUIRE(put(writer, files, key, payload_of(key, 10)));
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!reader.find(key) && std::chrono::steady_clock::now() < deadline) reader.refresh();
        CHECK(get(reader, files, key) == payload_of(key, 10));
        for (const auto& each : std::filesystem::directory_iterator(folder.path()))
            std::filesystem::remove(each.path());
    }
}

TEST_CASE("a segment that is sealed while the folder is being listed is found all the same") {
    const Files files;
    const TemporaryFolder folder;
    Directory writer(files, options_for(folder.path()));
    bool is_listing = false;
    const Files watched([&](FileCall call, const std::string& path) {
        if (call == FileCall::open && is_listing && path.ends_with(".open")) writer.close();
        return Fault{};
    });
    Directory reader(watched, options_for(folder.path()));
    REQUIRE(put(writer, files, 1, payload_of(1, 10)));
    is_listing = true;
    reader.refresh();
    CHECK(get(reader, files, 1) == payload_of(1, 10));
    CHECK(reader.stats().segments == 1);
}

TEST_CASE(
    "a segment that is sealed in the tick of the clock in which it is listed is found by the next look") {
    const Files files;
    const TemporaryFolder folder;
    Directory writer(files, options_for(folder.path()));
    bool is_listing = false;
    const Files watched([&](FileCall call, const std::string& path) {
        if (call != FileCall::open || !is_listing || !path.ends_with(".open")) return Fault{};
        is_listing = false;
        struct stat before {};
        ::stat(folder.path().c_str(), &before);
        writer.close();
        const timespec times[] = {before.st_atim, before.st_mtim};
        ::utimensat(AT_FDCWD, folder.path().c_str(), times, 0);
        return Fault{};
    });
    Directory reader(watched, options_for(folder.path()));
    REQUIRE(put(writer, files, 1, payload_of(1, 10)));
    is_listing = true;
    reader.refresh();
    reader.refresh();
    CHECK(get(reader, files, 1) == payload_of(1, 10));
}

TEST_CASE("what could not be listed is listed by the next look") {
    const FileCall failing = GENERATE(FileCall::list, FileCall::open);
    const Files files;
    const TemporaryFolder folder;
    Directory writer(files, options_for(folder.path()));
    bool fails = false;
    const Files watched([&](FileCall call, const std::string& path) {
        return fails && call == failing && !path.ends_with("/lock") ? Fault{EMFILE} : Fault{};
    });
    Directory reader(watched, options_for(folder.path()));
    REQUIRE(put(writer, files, 1, payload_of(1, 10)));
    fails = true;
    reader.refresh();
    CHECK_FALSE(reader.find(1));
    fails = false;
    reader.refresh();
    CHECK(get(reader, files, 1) == payload_of(1, 10));
}

TEST_CASE("a segment that is listed while it is created is one's own all the same: flushed, and sealed") {
    const TemporaryFolder folder;
    Directory* opened = nullptr;
    bool is_there = false;
    int syncs = 0;
    const Files files([&](FileCall call, const std::string& path) {
        if (opened != nullptr && call == FileCall::rename && path.ends_with(".making")) is_there = true;
        if (call == FileCall::write && std::exchange(is_there, false)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(150));  // until it would be listed
            opened->refresh();
        }
        syncs += call == FileCall::sync_data;
        return Fault{};
    });
    Directory directory(files, options_for(folder.path()));
    opened = &directory;
    REQUIRE(put(directory, files, 1, payload_of(1, 10)));
    directory.flush();
    CHECK(syncs > 0);
    directory.close();
    CHECK(files_with(folder.path(), ".open").empty());
    CHECK(files_with(folder.path(), ".seg").size() == 1);
}

TEST_CASE("slots that are committed out of order are all found") {
    const Files files;
    const TemporaryFolder folder;
    Directory writer(files, options_for(folder.path())), reader(files, options_for(folder.path()));
    std::vector<Room> rooms;
    for (std::uint64_t key = 0; key < 50; ++key) {
        rooms.push_back(*writer.reserve(key, 30));
        REQUIRE(write_payload(files, rooms.back(), payload_of(key, 30)));
    }
    for (std::uint64_t i = 0; i < 50; ++i) {
        const std::uint64_t key = (i * 37 + 11) % 50;
        REQUIRE(writer.commit(rooms[key], payload_of(key, 30)));
        reader.refresh();
        REQUIRE(get(reader, files, key) == payload_of(key, 30));
    }
    CHECK(reader.stats().records == 50);
}

TEST_CASE("a full segment is sealed, and another one begun") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path(), 100 * MiB));
    for (std::uint64_t key = 0; key < 100; ++key)
        REQUIRE(put(directory, files, key, payload_of(key, 100'000)));
    CHECK(files_with(folder.path(), ".seg").size() >= 9);
    CHECK(files_with(folder.path(), ".open").size() == 1);
    for (std::uint64_t key = 0; key < 100; ++key)
        REQUIRE(get(directory, files, key) == payload_of(key, 100'000));
}

TEST_CASE("threads write, read, forget, look for news, flush and verify, all at once") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path(), 64 * MiB));
    Directory other(files, options_for(folder.path(), 64 * MiB));
    const auto size_of = [](std::uint64_t key) { return key % 3 ? key % 700 : 5000 + key; };
    std::atomic<int> writers = 4, wrong = 0;
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            Directory& mine = thread % 2 ? directory : other;
            for (std::uint64_t i = 0; i < 400; ++i) {
                const std::uint64_t key = (i * 7 + thread * 100) % 600;
                put(mine, files, key, payload_of(key, size_of(key)));
                if (const auto place = mine.find(key); place && i % 50 == 0) mine.forget(*place);
            }
            --writers;
        });
    for (Directory* each : {&directory, &other})
        threads.emplace_back([&, each] {
            for (std::uint64_t key = 0; writers > 0; key = (key + 1) % 600) {
                if (key % 20 == 0) each->refresh();
                if (key % 100 == 0) each->flush();
                if (key == 300) each->verify(nullptr);
                const auto payload = get(*each, files, key);
                wrong += payload && *payload != payload_of(key, size_of(key));
                each->stats();
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    directory.refresh();
    for (const std::uint64_t key : directory.keys())
        REQUIRE(get(directory, files, key) == payload_of(key, size_of(key)));
    CHECK(directory.verify(nullptr).bad_records == 0);
}

TEST_CASE("a segment that is sealed early takes up little more than what is in it") {
    const Files files;
    const TemporaryFolder folder;
    for (std::uint64_t turn = 0; turn < 20; ++turn) {
        Directory directory(files, options_for(folder.path(), 100'000 * MiB));
        REQUIRE(put(directory, files, turn, payload_of(turn, 300)));
        CHECK(folder_bytes(folder.path()) > 60 * MiB);  // the index of a small segment is a fifth of it
    }
    CHECK(files_with(folder.path(), ".seg").size() == 20);
    CHECK(folder_bytes(folder.path()) < 1 * MiB);
    Directory directory(files, options_for(folder.path(), 100'000 * MiB));
    CHECK(directory.stats().used_bytes < 1 * MiB);
    for (std::uint64_t turn = 0; turn < 20; ++turn)
        CHECK(get(directory, files, turn) == payload_of(turn, 300));
    CHECK(directory.verify([](std::uint64_t, std::uint64_t) { return true; }).bad_records == 0);
}

TEST_CASE("a payload larger than a segment gets one of its own") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path(), 20 * MiB));
    REQUIRE(put(directory, files, 1, payload_of(1, 9 * MiB)));
    CHECK(get(directory, files, 1) == payload_of(1, 9 * MiB));
    CHECK_FALSE(directory.reserve(2, 30 * MiB));
    CHECK_FALSE(directory.reserve(3, UINT64_MAX));
    CHECK(directory.stats().not_written == 2);
    CHECK(directory.stats().trouble != "");
}

TEST_CASE("while a segment is being sealed, finding and reserving go on") {
    const TemporaryFolder folder;
    Directory* directory = nullptr;
    std::atomic<int> syncs = 0;
    std::future<bool> meanwhile;
    const Files plain;
    const Files files([&](FileCall call, const std::string&) {
        if (call != FileCall::sync_data || !directory || syncs++ != 0) return Fault{};
        meanwhile = std::async(std::launch::async, [&] {
            return directory->find(1).has_value() && put(*directory, plain, 1000, payload_of(1000, 50'000));
        });
        CHECK(meanwhile.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
        return Fault{};
    });
    Directory real(files, options_for(folder.path(), 100 * MiB));
    directory = &real;
    for (std::uint64_t key = 1; syncs == 0 && key < 100; ++key)
        REQUIRE(put(real, files, key, payload_of(key, 100'000)));
    REQUIRE(syncs > 0);
    CHECK(meanwhile.get());
    directory = nullptr;
}

TEST_CASE("a key that is there already has no room, and twice written it has two copies") {
    const Files files;
    const TemporaryFolder folder;
    Directory first(files, options_for(folder.path())), second(files, options_for(folder.path()));
    REQUIRE(put(first, files, 5, payload_of(5, 100)));
    CHECK_FALSE(first.reserve(5, 100));
    CHECK(first.stats().not_written == 0);
    REQUIRE(put(second, files, 5, payload_of(5, 100)));
    first.refresh();
    CHECK(first.stats().records == 1);

    const auto place = first.find(5);
    first.forget(*place);
    first.forget(*place);
    CHECK(first.stats().corrupt == 1);
    const auto other = first.find(5);
    REQUIRE(other);
    CHECK(other->segment != place->segment);
    CHECK(get(first, files, 5) == payload_of(5, 100));
    first.forget(*other);
    CHECK_FALSE(first.find(5));
    first.refresh();
    CHECK_FALSE(first.find(5));
    CHECK(put(first, files, 5, payload_of(5, 100)));
    CHECK(get(first, files, 5) == payload_of(5, 100));
}

TEST_CASE("a key has one flight at a time, over threads and folders") {
    const Files files;
    const TemporaryFolder folder;
    Directory first(files, options_for(folder.path())), second(files, options_for(folder.path()));
    for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{42}, UINT64_MAX >> 1, UINT64_MAX}) {
        CHECK(first.begin_flight(key));
        CHECK_FALSE(first.begin_flight(key));
        CHECK_FALSE(second.begin_flight(key));
        second.end_flight(key);
        CHECK_FALSE(second.begin_flight(key));
        first.end_flight(key);
        CHECK(second.begin_flight(key));
        CHECK_FALSE(first.begin_flight(key));
        second.end_flight(key);
    }
    in_dying_process([&] { _exit(Directory(files, options_for(folder.path())).begin_flight(7) ? 0 : 1); });
    CHECK(first.begin_flight(7));
}
