#include "dsl/base/named_file.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>

#include "dsl/planning/compile.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Contains;
using test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::string refusal_of(const std::string& path) {
    try {
        (void)read_text(path);
    } catch (const UnreadableFile& refused) {
        return refused.what();
    }
    return "";
}

void make_socket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    close(fd);
}

}  // namespace

TEST_CASE("a file is read, and what is no regular file is refused at once") {
    const TemporaryFolder folder;
    const std::string fifo = folder.path() + "/fifo", unix_socket = folder.path() + "/socket";
    folder.write("text", "one\ntwo\n");
    fs::create_symlink("text", folder.path() + "/link");
    CHECK(read_text(folder.path() + "/link") == "one\ntwo\n");
    CHECK(read_text(folder.path() + "/text", 5) == "one\nt");
    InputFile lines(folder.path() + "/text");
    std::string line;
    CHECK((std::getline(lines, line) && line == "one" && std::getline(lines, line) && line == "two"));
    CHECK_FALSE(std::getline(lines, line));

    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    make_socket(unix_socket);
    CHECK_THAT(refusal_of(fifo), Contains("it is a FIFO or pipe, and only regular files are read; name one"));
    CHECK_THAT(refusal_of(unix_socket), Contains("it is a socket"));
    CHECK_THAT(refusal_of("/dev/zero"), Contains("it is a device"));
    CHECK(refusal_of(folder.path()) == "Is a directory");
    CHECK(refusal_of(folder.path() + "/none") == "No such file or directory");
}

TEST_CASE("a new file takes the place of whatever has its name, and follows no link") {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/new";
    folder.write("others", "theirs");
    fs::create_symlink("others", path);
    replace_file(path, "ours", 0600);
    CHECK(read_text(path) == "ours");
    CHECK_FALSE(fs::is_symlink(path));
    CHECK(read_text(folder.path() + "/others") == "theirs");
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    const int fd = make_regular(path, 0666);
    REQUIRE(fd >= 0);
    close(fd);
    CHECK(fs::is_regular_file(path));
    CHECK(make_regular(folder.path(), 0666) == -EISDIR);
    CHECK_THROWS_WITH(replace_file("/nonexistent/new", "", 0600), "No such file or directory");
    CHECK_THROWS_WITH(replace_file(folder.path(), "", 0600), "Is a directory");
    CHECK(std::distance(fs::directory_iterator(fs::path(folder.path())), {}) == 2);
}

TEST_CASE("a new file is as private as it is to be, and one that is replaced keeps its mode") {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/file";
    const auto mode = [&] { return static_cast<unsigned>(fs::status(path).permissions()); };
    replace_file(path, "one", private_mode);
    CHECK(mode() == 0600);
    for (const unsigned chosen : {0640u, 0644u, 0400u}) {
        REQUIRE(chmod(path.c_str(), chosen) == 0);
        replace_file(path, "two", private_mode);
        CHECK(mode() == chosen);
    }
    fs::remove(path);
    folder.write("others", "");
    fs::permissions(folder.path() + "/others", fs::perms::all);
    fs::create_symlink("others", path);  // the link is replaced, and it has no mode
    replace_file(path, "three", private_mode);
    CHECK(mode() == 0600);
}

TEST_CASE("a result goes into a FIFO that is read, and does not wait for a reader") {
    const TemporaryFolder folder;
    const std::string fifo = folder.path() + "/fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK_THROWS_WITH(OutputFile(fifo), Contains("that nobody reads; start its reader first"));
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    OutputFile file(fifo);
    file << "text";
    file.close();
    CHECK(file.good());
    char text[8] = {};
    CHECK(read(reader, text, sizeof text) == 4);
    CHECK(std::string(text) == "text");
    close(reader);
    OutputFile full("/dev/full");
    full << "text";
    full.close();
    CHECK(full.bad());
}

TEST_CASE("a FIFO among the schedules is passed over and named") {
    const TemporaryFolder folder;
    REQUIRE(mkfifo((folder.path() + "/ring.sched").c_str(), 0600) == 0);
    dsl::PlanRequest request = test::request(dsl::Collective::all_reduce, "ring", "4");
    request.search_path = {folder.path()};
    const std::string error = test::error_of([&] { dsl::check_schedule(request); });
    CHECK_THAT(error, Contains("passed over: cannot read") && Contains("ring.sched: it is a FIFO"));
    request.schedule = folder.path() + "/ring.sched";
    CHECK_THAT(test::error_of([&] { dsl::check_schedule(request); }),
               Contains("/ring.sched: it is a FIFO or pipe, and only regular files are read"));
}
