// File calls that fail: nothing wrong is ever returned.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

namespace {

constexpr std::uint64_t scenario_limit = 200 * 1024;
std::uint64_t scenario_size(std::uint64_t key) {
    return key % 2 ? 300 + key : 4500 + key * 10;
}

// Runs one life of the cache. Returns the keys that must be there afterwards.
std::vector<std::uint64_t> live(const Files& files, const std::string& folder) {
    std::vector<std::uint64_t> committed;
    bool is_certain = true;
    const auto check = [&](Directory& directory) {
        for (const std::uint64_t key : directory.keys()) {
            const auto payload = get(directory, files, key);
            if (payload) REQUIRE(*payload == payload_of(key, scenario_size(key)));
        }
        REQUIRE(folder_bytes(folder) <= scenario_limit);
    };
    for (std::uint64_t round = 0; round < 2; ++round) try {
            Directory directory(files, options_for(folder, scenario_limit));
            Directory other(files, options_for(folder, scenario_limit));
            for (std::uint64_t key = round * 20; key < round * 20 + 20; ++key) {
                if (key % 20 == 10) directory.flush();
                if (put(directory, files, key, payload_of(key, scenario_size(key)))) committed.push_back(key);
                if (key % 5 == 0) other.refresh();
            }
            check(directory);
            check(other);
            directory.begin_flight(1);
            directory.verify(nullptr);
            directory.close();
            other.refresh();
            check(other);
            const std::string trouble = directory.stats().trouble;
            is_certain = is_certain && trouble.find("lost") == std::string::npos;
        } catch (const Error& error) {
            REQUIRE(error.status() == Status::io);
            REQUIRE(std::string(error.what()).size() > 10);
            is_certain = false;
        }
    if (!is_certain) committed.clear();
    return committed;
}

// Lives with the call number `nth` suffering a fault, and everything behind it if it lasts; false: there is
// no such call.
bool live_with(const Fault& fault, int nth, bool lasts) {
    const TemporaryFolder folder(fast_folder());
    std::atomic<int> calls = 0;
    const Files files([&](FileCall, const std::string&) {
        const int call = calls++;
        return call == nth || (lasts && call > nth) ? fault : Fault{};
    });
    INFO("call " << nth << ", error " << fault.error << ", at most " << fault.at_most << ", lasts " << lasts);
    const auto committed = live(files, folder.path());

    const Files healthy;
    Directory directory(healthy, options_for(folder.path(), scenario_limit));
    REQUIRE(files_with(folder.path(), ".making").empty());
    REQUIRE(files_with(folder.path(), ".open").empty());
    for (const std::uint64_t key : directory.keys())
        REQUIRE(get(directory, healthy, key) == payload_of(key, scenario_size(key)));
    for (const std::uint64_t key : committed) REQUIRE(directory.find(key));
    REQUIRE(directory.stats().corrupt == 0);
    REQUIRE(put(directory, healthy, 1000, payload_of(1000, 500)));
    REQUIRE(folder_bytes(folder.path()) <= scenario_limit);
    return calls > nth;
}

}  // namespace

TEST_CASE("whichever file call fails, nothing wrong is returned, and a healthy disk heals it") {
    for (const int error : {EIO, ENOSPC}) {
        int nth = in_long_form(0, error == EIO ? 0 : 1);  // usually, each call fails in one of the ways
        while (live_with({error, UINT64_MAX}, nth, false)) nth += in_long_form(1, 2);
        CHECK(nth > 200);
    }
}

TEST_CASE("each transfer is cut short in turn") {
    int nth = 0;
    while (live_with({0, 512}, nth, false)) nth += in_long_form(1, 3);
    CHECK(nth > 200);
}

TEST_CASE("from any file call on, all fail") {
    for (const int error : {EIO, ENOSPC, EROFS}) {
        int nth = 0;
        while (live_with({error, UINT64_MAX}, nth, true)) nth += in_long_form(3, 7);
        CHECK(nth > 20);
    }
}

TEST_CASE(
    "entries reach the disk before the footer, the footer before the name, and the name before the end") {
    const TemporaryFolder folder;
    std::vector<FileCall> calls;
    const Files files([&](FileCall call, const std::string&) {
        calls.push_back(call);
        return Fault{};
    });
    Directory directory(files, options_for(folder.path()));
    REQUIRE(put(directory, files, 1, payload_of(1, 100)));
    calls.clear();
    directory.close();
    std::erase(calls, FileCall::read);
    std::erase(calls, FileCall::lock);
    std::erase(calls, FileCall::open);
    const std::vector<FileCall> expected{FileCall::sync_data, FileCall::write,     FileCall::truncate,
                                         FileCall::truncate,  FileCall::sync_data, FileCall::rename,
                                         FileCall::sync};
    CHECK(calls == expected);
}

TEST_CASE("after a failed sync nothing of the segment is promised, and flush says so") {
    for (const FileCall failing : {FileCall::sync_data, FileCall::sync}) {
        const TemporaryFolder folder(fast_folder());
        std::atomic<bool> fails = true;
        const Files files([&](FileCall call, const std::string&) {
            return call == failing && fails ? Fault{EIO, UINT64_MAX} : Fault{};
        });
        Directory directory(files, options_for(folder.path()));
        REQUIRE(put(directory, files, 1, payload_of(1, 100)));
        CHECK_THROWS_AS(directory.flush(), Error);
        if (failing == FileCall::sync_data) {
            CHECK_FALSE(directory.find(1));
            CHECK(files_with(folder.path(), ".open").empty());
        }
        fails = false;
        CHECK_NOTHROW(directory.flush());
        CHECK(directory.stats().corrupt == 0);
    }
}

TEST_CASE("a segment that is removed while it reaches the disk takes no further samples") {
    const TemporaryFolder folder;
    Directory* directory = nullptr;
    bool is_removed = false;
    const Files files([&](FileCall call, const std::string&) {
        if (call != FileCall::sync_data || !directory || std::exchange(is_removed, true)) return Fault{};
        for (const auto& path : files_with(folder.path(), ".open")) std::filesystem::remove(path);
        CHECK_THROWS_AS(directory->flush(), Error);  // as another thread would
        return Fault{};
    });
    Directory real(files, options_for(folder.path()));
    directory = &real;
    const auto room = *real.reserve(1, 100);
    REQUIRE(write_payload(files, room, payload_of(1, 100)));
    real.flush();
    REQUIRE(is_removed);
    CHECK_FALSE(real.commit(room, payload_of(1, 100)));
    CHECK_FALSE(real.find(1));
    directory = nullptr;
}

TEST_CASE("a payload that cannot be written ends its segment, and not the ones written before") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path())), other(files, options_for(folder.path()));
    REQUIRE(put(directory, files, 1, payload_of(1, 100)));
    const auto first = *directory.reserve(2, 100), second = *directory.reserve(3, 100);
    directory.abandon(first, EIO);
    CHECK(directory.stats().not_written == 1);
    CHECK(directory.stats().trouble.find("Input/output error") != std::string::npos);
    CHECK_FALSE(directory.reserve(4, 100));
    REQUIRE(write_payload(files, second, payload_of(3, 100)));
    CHECK(directory.commit(second, payload_of(3, 100)));
    CHECK(files_with(folder.path(), ".seg").size() == 1);
    CHECK(files_with(folder.path(), ".open").empty());
    other.refresh();
    for (Directory* each : {&directory, &other}) {
        CHECK(get(*each, files, 1) == payload_of(1, 100));
        CHECK_FALSE(each->find(2));
        CHECK(get(*each, files, 3) == payload_of(3, 100));
    }
}
