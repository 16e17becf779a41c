// Foreign files in the cache's folder.
#include <sys/socket.h>
#include <sys/un.h>

#include "runtime/cache/directory/directory.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/runtime/cache/io/fifos.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

namespace {

// A name that a segment might have.
std::string name_of(std::uint64_t number, SegmentStage stage) {
    return file_name({{0xfffffff0, number}, stage});
}

void make_socket(const std::string& path) {
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{AF_UNIX, {}};
    REQUIRE(path.size() < sizeof address.sun_path);
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

constexpr SegmentStage stages[] = {SegmentStage::making, SegmentStage::open, SegmentStage::sealed};

std::vector<std::string> fifo_paths(const std::string& folder) {
    std::vector<std::string> paths;
    for (const SegmentStage stage : stages) paths.push_back(folder + "/" + name_of(1, stage));
    return paths;
}

// Makes entries of every other kind.
void make_foreign(const std::string& folder) {
    namespace fs = std::filesystem;
    for (const SegmentStage stage : stages) {
        const auto path = [&](std::uint64_t number) { return folder + "/" + name_of(number, stage); };
        fs::create_symlink(name_of(1, stage), path(2));  // to the FIFO
        fs::create_symlink(name_of(3, stage), path(3));  // to itself
        fs::create_symlink("nowhere", path(4));
        fs::create_directory(path(5));
        make_socket(path(6));
        fs::create_symlink("/dev/zero", path(7));
    }
}

}  // namespace

TEST_CASE("what is no regular file is not opened, and said to be none") {
    const TemporaryFolder folder;
    const Files files;
    Fifos fifos(fifo_paths(folder.path()));
    make_foreign(folder.path());
    for (const int flags : {O_RDONLY, O_RDWR, O_RDWR | O_CREAT})
        for (std::uint64_t number = 1; number <= 7; ++number) {
            CAPTURE(flags, number);
            const std::string path = folder.path() + "/" + name_of(number, SegmentStage::sealed);
            CHECK(files.open(path, flags) == -irregular_file);
            if (number == 1 || number == 2 || number == 7)
                CHECK(files.open_linked(path, flags & ~O_CREAT) == -irregular_file);
        }
    CHECK(fifos.are_passed());

    write_all(folder.path() + "/file", Bytes(10));
    std::filesystem::create_symlink("file", folder.path() + "/link");
    CHECK(files.open(folder.path() + "/link", O_RDONLY) == -irregular_file);
    const Descriptor linked(files.open_linked(folder.path() + "/link", O_RDONLY));
    REQUIRE(linked.get() >= 0);
    CHECK((::fcntl(linked.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a folder with FIFOs, links, folders and sockets in it is used without them") {
    const TemporaryFolder folder;
    const Files files;
    Fifos fifos(fifo_paths(folder.path()));
    make_foreign(folder.path());
    for (int round = 0; round < 2; ++round) {
        Directory directory(files, options_for(folder.path(), 8 << 20)),
            reader(files, options_for(folder.path(), 0, false));
        for (std::uint64_t key = 0; key < 10; ++key)
            REQUIRE(put(directory, files, 10 * round + key, payload_of(key, 3000 + 500 * key)));
        CHECK(directory.stats().trouble == "");
        reader.refresh();
        for (Directory* each : {&directory, &reader}) {
            CHECK(each->keys().size() == 10u * round + 10);
            CHECK(get(*each, files, 5) == payload_of(5, 5500));
            CHECK(each->verify(nullptr).findings.empty());
            CHECK(each->stats().corrupt == 0);
        }
    }
    CHECK(fifos.are_passed());
    for (const std::string& path : fifo_paths(folder.path())) CHECK(std::filesystem::is_fifo(path));
}

TEST_CASE("a lock that is no file is named, and the cache goes on without writing") {
    const Files files;
    for (const bool is_fifo : {true, false}) {
        const TemporaryFolder folder;
        {
            REQUIRE(
                put(*std::make_unique<Directory>(files, options_for(folder.path())), files, 1, Bytes(10)));
        }
        const std::string lock = folder.path() + "/lock";
        std::filesystem::remove(lock);
        std::filesystem::remove(folder.path() + "/flights.0");
        Fifos fifos(is_fifo ? std::vector{lock, folder.path() + "/flights.0"} : std::vector<std::string>{});
        if (!is_fifo) std::filesystem::create_symlink("/dev/zero", lock);
        Directory directory(files, options_for(folder.path()));
        CHECK(get(directory, files, 1) == Bytes(10));
        CHECK_FALSE(put(directory, files, 2, Bytes(10)));
        CHECK(directory.stats().trouble.find(lock + ": it is not a regular file") == 0);
        CHECK(directory.begin_flight(1));
        CHECK(fifos.are_passed());
    }
}
