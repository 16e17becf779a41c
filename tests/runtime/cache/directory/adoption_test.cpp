// Adoption of files in the folder: those of dead processes, of running ones, and foreign ones.
#include <chrono>

#include "runtime/base/error.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

TEST_CASE("what a dead process left is adopted, and its temporaries are removed") {
    const Files files;
    const TemporaryFolder folder;
    in_dying_process([&] {
        auto* directory = new Directory(files, options_for(folder.path(), 400 * MiB));
        for (std::uint64_t key = 0; key < 200; ++key)
            if (!put(*directory, files, key, payload_of(key, key * 50))) ::_exit(1);
        ::_exit(0);
    });
    write_all(folder.path() + "/00000000000000000000000000000001.making", payload_of(1, 5000));
    REQUIRE(files_with(folder.path(), ".open").size() == 2);
    Directory reader(files, options_for(folder.path(), 0, false));
    CHECK(reader.stats().records == 200);

    Directory directory(files, options_for(folder.path()));
    CHECK(directory.stats().adopted == 2);
    CHECK(directory.stats().corrupt == 0);
    CHECK(files_with(folder.path(), ".seg").size() == 2);
    CHECK(files_with(folder.path(), ".open").empty());
    CHECK(files_with(folder.path(), ".making").empty());
    reader.refresh();
    CHECK(reader.stats().segments == 2);
    for (std::uint64_t key = 0; key < 200; ++key) {
        REQUIRE(get(directory, files, key) == payload_of(key, key * 50));
        REQUIRE(get(reader, files, key) == payload_of(key, key * 50));
    }
    // The folder takes up no more than it must.
    CHECK(folder_bytes(folder.path()) < 3 * MiB);
}

TEST_CASE("a segment that a living process writes is not adopted") {
    const Files files;
    const TemporaryFolder folder;
    Directory first(files, options_for(folder.path()));
    REQUIRE(put(first, files, 1, payload_of(1, 10)));
    Directory second(files, options_for(folder.path()));
    CHECK(second.stats().adopted == 0);
    REQUIRE(put(second, files, 2, payload_of(2, 10)));
    CHECK(files_with(folder.path(), ".open").size() == 2);
    REQUIRE(put(first, files, 3, payload_of(3, 10)));
}

TEST_CASE("a process that dies without having written anything leaves nothing behind") {
    const Files files;
    const TemporaryFolder folder;
    in_dying_process([&] {
        auto* directory = new Directory(files, options_for(folder.path()));
        ::_exit(directory->reserve(1, 10) ? 0 : 1);
    });
    Directory directory(files, options_for(folder.path()));
    CHECK(directory.stats().adopted == 1);
    CHECK(files_with(folder.path(), ".open").empty());
    CHECK(files_with(folder.path(), ".seg").empty());
}

TEST_CASE("other files in the folder are left alone, but count towards its limit") {
    const Files files;
    const TemporaryFolder folder;
    write_all(folder.path() + "/README", payload_of(1, 3 * MiB));
    std::filesystem::create_directory(folder.path() + "/below");
    Directory directory(files, options_for(folder.path(), 4 * MiB));
    while (put(directory, files, directory.stats().written, payload_of(1, 50'000))) continue;
    CHECK(directory.stats().written > 10);
    CHECK(folder_bytes(folder.path()) <= 4 * MiB + 4096);  // and the folder below
    CHECK(read_all(folder.path() + "/README") == payload_of(1, 3 * MiB));
}

TEST_CASE("when segments vanish, so do their records") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path()));
    REQUIRE(put(directory, files, 1, payload_of(1, 10)));
    for (const auto& path : files_with(folder.path(), ".open")) std::filesystem::remove(path);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (directory.find(1) && std::chrono::steady_clock::now() < deadline) directory.refresh();
    CHECK_FALSE(directory.find(1));
    CHECK_THROWS_AS(directory.flush(), Error);
    directory.flush();
    CHECK(directory.stats().segments == 0);
}

TEST_CASE("a flush does not promise what is gone, however short ago") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path()));
    REQUIRE(put(directory, files, 1, payload_of(1, 10)));
    for (const auto& path : files_with(folder.path(), ".open")) std::filesystem::remove(path);
    CHECK_THROWS_AS(directory.flush(), Error);
}

TEST_CASE("a folder that is a file, or below one, is an error") {
    const Files files;
    const TemporaryFolder folder;
    write_all(folder.path() + "/file", payload_of(1, 10));
    for (const char* name : {"/file", "/file/below"}) {
        try {
            Directory directory(files, options_for(folder.path() + name));
            FAIL("no error");
        } catch (const Error& error) {
            CHECK(error.status() == Status::io);
        }
    }
    CHECK_THROWS_AS(Directory(files, options_for(folder.path() + "/none", 0, false)), Error);
    CHECK_NOTHROW(Directory(files, options_for(folder.path() + "/made/as/needed")));
}
