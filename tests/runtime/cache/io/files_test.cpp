#include "runtime/cache/io/files.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/runtime/cache/io/loop_run.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace hocket::cache;
using namespace hocket::test;

namespace {

std::string bytes_of(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 8) * 13);
    return bytes;
}

// An open file that is closed at the end.
struct Opened {
    int fd;
    Opened(const Files& files, const std::string& path, int flags) : fd(files.open(path, flags)) {
        REQUIRE(fd >= 0);
    }
    ~Opened() { Files::close(fd); }
};

void make_file(const std::string& path, const std::string& content) {
    const Files files;
    const Opened file(files, path, O_RDWR | O_CREAT | O_TRUNC);
    REQUIRE(files.write(file.fd, content.data(), content.size(), 0) ==
            static_cast<std::int64_t>(content.size()));
}

std::string read_whole(const Files& files, int fd, std::size_t bytes, std::uint64_t offset) {
    std::string content(bytes, '?');
    const std::int64_t n = files.read(fd, content.data(), bytes, offset);
    REQUIRE(n >= 0);
    content.resize(static_cast<std::size_t>(n));
    return content;
}

void do_nothing(int) {}

}  // namespace

TEST_CASE("files are written and read whole, up to their end") {
    const TemporaryFolder folder;
    const Files files;
    const std::string content = bytes_of(100'000);
    make_file(folder / "a", content);
    const Opened file(files, folder / "a", O_RDONLY);
    CHECK((fcntl(file.fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(read_whole(files, file.fd, 100'000, 0) == content);
    CHECK(read_whole(files, file.fd, 100'000, 99'990) == content.substr(99'990));
    CHECK(read_whole(files, file.fd, 10, 100'000).empty());
    CHECK(read_whole(files, file.fd, 0, 0).empty());
    char byte;
    CHECK(files.write(file.fd, &byte, 1, 0) == -EBADF);
    CHECK(files.read(-1, &byte, 1, 0) == -EBADF);
    CHECK(files.open(folder / "b", O_RDONLY) == -ENOENT);
    CHECK(Files::close(-1) == -EBADF);
}

TEST_CASE("short transfers go on where they stopped") {
    const TemporaryFolder folder;
    int calls = 0;
    const Files files([&](FileCall call, const std::string&) {
        calls += call == FileCall::read || call == FileCall::write;
        return Fault{0, 7};
    });
    const std::string content = bytes_of(1000);
    const Opened file(files, folder / "a", O_RDWR | O_CREAT);
    CHECK(files.write(file.fd, content.data(), 1000, 5) == 1000);
    CHECK(calls == 143);
    CHECK(read_whole(files, file.fd, 1000, 5) == content);
    CHECK(calls == 2 * 143);
    CHECK(read_whole(files, file.fd, 1000, 900) == content.substr(895));
}

TEST_CASE("a disk that moves nothing ends a read, and fails a write") {
    const TemporaryFolder folder;
    const Files files([](FileCall, const std::string&) { return Fault{0, 0}; });
    make_file(folder / "a", "content");
    const Opened file(files, folder / "a", O_RDWR);
    char bytes[7] = {};
    CHECK(files.read(file.fd, bytes, 7, 0) == 0);
    CHECK(files.write(file.fd, bytes, 7, 0) == -EIO);
}

TEST_CASE("a direct read stops at the end of the file, and goes on from a short one") {
    const TemporaryFolder folder;
    const std::size_t size = GENERATE(as<std::size_t>(), 1, 511, 512, 5000, 8192, 12'800, 16'384);
    const std::string content = bytes_of(size);
    make_file(folder / "a", content);
    const std::uint64_t at_most = GENERATE(as<std::uint64_t>(), 100, 1000, 4096, UINT64_MAX);
    const Files files([=](FileCall, const std::string&) { return Fault{0, at_most}; });
    const int fd = files.open(folder / "a", O_RDONLY | O_DIRECT);
    if (fd == -EINVAL) HOCKET_SKIP("the temporary folder's file system has no direct I/O");
    const std::unique_ptr<char, Freed> memory(static_cast<char*>(std::aligned_alloc(4096, 16'384)));
    const std::int64_t n = files.read(fd, memory.get(), 16'384, 0);
    Files::close(fd);
    REQUIRE(n == static_cast<std::int64_t>(size));
    CHECK(std::equal(content.begin(), content.end(), memory.get()));
}

TEST_CASE("a fault fails its call before anything is done") {
    const TemporaryFolder folder;
    make_file(folder / "a", "content");
    FileCall asked{};
    std::string asked_path;
    const Files files([&](FileCall call, const std::string& path) {
        asked = call;
        asked_path = path;
        return Fault{ENOSPC};
    });
    const Opened file(Files(), folder / "a", O_RDWR);
    const std::string a = folder / "a", b = folder / "b";
    char byte = 'x';
    struct stat found;
    struct statx found_too;
    std::vector<std::string> names;
    const auto fails = [&](FileCall call, const std::string& path, std::int64_t result) {
        CHECK(result == -ENOSPC);
        CHECK(asked == call);
        CHECK(asked_path == path);
    };
    fails(FileCall::open, a, files.open(a, O_RDONLY));
    fails(FileCall::create, b, files.open(b, O_RDWR | O_CREAT));
    fails(FileCall::read, "", files.read(file.fd, &byte, 1, 0));
    fails(FileCall::write, "", files.write(file.fd, &byte, 1, 0));
    fails(FileCall::allocate, "", files.allocate(file.fd, 100));
    fails(FileCall::truncate, "", files.truncate(file.fd, 0));
    fails(FileCall::sync_data, "", files.sync_data(file.fd));
    fails(FileCall::sync, "", files.sync(file.fd));
    fails(FileCall::open, folder.path(), files.sync_folder(folder.path()));
    fails(FileCall::rename, a, files.rename(a, b));
    fails(FileCall::unlink, a, files.unlink(a));
    fails(FileCall::make_folder, b, files.make_folders(b));
    fails(FileCall::list, folder.path(), files.list(folder.path(), names));
    fails(FileCall::status, a, files.status(a, found));
    fails(FileCall::status, a, files.status(a, found_too));
    fails(FileCall::lock, "", files.lock(file.fd, LOCK_EX | LOCK_NB));
    fails(FileCall::lock, "", files.lock_byte(file.fd, 0, true));
    CHECK(byte == 'x');
    CHECK(read_whole(Files(), file.fd, 100, 0) == "content");
    CHECK(Files().list(folder.path(), names) == 0);
    CHECK(names == std::vector<std::string>{"a"});
}

TEST_CASE("the second call of one that makes several can fail, too") {
    const TemporaryFolder folder;
    int calls = 0;
    const Files files([&](FileCall, const std::string&) { return Fault{++calls == 2 ? EIO : 0, 4}; });
    CHECK(files.sync_folder(folder.path()) == -EIO);
    const Opened file(Files(), folder / "a", O_RDWR | O_CREAT);
    calls = 0;
    CHECK(files.write(file.fd, "0123456789", 10, 0) == -EIO);
    CHECK(read_whole(Files(), file.fd, 100, 0) == "0123");
}

TEST_CASE("files are allocated, cut, synced, renamed and removed") {
    const TemporaryFolder folder;
    const Files files;
    const std::string a = folder / "a", b = folder / "b";
    const Opened file(files, a, O_RDWR | O_CREAT);
    struct stat found;
    struct statx found_too;
    CHECK(files.allocate(file.fd, 1 << 20) == 0);
    REQUIRE(files.status(a, found) == 0);
    CHECK(found.st_size == 1 << 20);
    CHECK(found.st_blocks * 512 >= 1 << 20);
    CHECK(files.truncate(file.fd, 4096) == 0);
    REQUIRE(files.status(a, found_too) == 0);
    CHECK(found_too.stx_size == 4096);
    CHECK(files.sync_data(file.fd) == 0);
    CHECK(files.sync(file.fd) == 0);
    CHECK(files.rename(a, b) == 0);
    CHECK(files.sync_folder(folder.path()) == 0);
    CHECK(files.sync_folder(b) == -ENOTDIR);
    CHECK(files.status(a, found) == -ENOENT);
    CHECK(files.unlink(b) == 0);
    CHECK(files.unlink(b) == -ENOENT);
    CHECK(files.rename(a, b) == -ENOENT);
    CHECK(files.sync(-1) == -EBADF);
}

TEST_CASE("where a file system cannot allocate, the file gets its size") {
    const TemporaryFolder folder;
    constexpr int cannot_mount = 77;
    const int status = status_of_child([&] {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", folder.path().c_str(), "ramfs", 0, nullptr) != 0)
            _exit(cannot_mount);
        const Files files;
        const int fd = files.open(folder / "a", O_RDWR | O_CREAT);
        struct stat found;
        return fd >= 0 && fallocate(fd, 0, 0, 1) != 0 && errno == EOPNOTSUPP &&
               files.allocate(fd, 1 << 20) == 0 && files.status(folder / "a", found) == 0 &&
               found.st_size == 1 << 20;
    });
    if (WIFEXITED(status) && WEXITSTATUS(status) == cannot_mount) HOCKET_SKIP("no right to mount a ramfs");
    CHECK(status == 0);
}

TEST_CASE("folders are made with all above them, and listed") {
    const TemporaryFolder folder;
    const Files files;
    CHECK(files.make_folders(folder / "x/y//z/") == 0);
    CHECK(files.make_folders(folder / "x/y/z") == 0);
    CHECK(files.make_folders("/") == 0);
    make_file(folder / "x/file", "");
    CHECK(files.make_folders(folder / "x/file") == -ENOTDIR);
    CHECK(files.make_folders(folder / "x/file/below") == -ENOTDIR);
    for (int i = 0; i < 100; ++i) make_file(folder / ("x/y/" + std::to_string(i)), "");
    std::vector<std::string> names{"from before"};
    REQUIRE(files.list(folder / "x/y", names) == 0);
    CHECK(names.size() == 101);
    const std::set<std::string> found(names.begin(), names.end());
    CHECK(found.size() == 101);
    CHECK(found.count("z") + found.count("0") + found.count("99") == 3);
    CHECK(files.list(folder / "none", names) == -ENOENT);
    CHECK(names.empty());
}

TEST_CASE("locks of files and of bytes exclude others") {
    const TemporaryFolder folder;
    const Files files;
    make_file(folder / "a", "");
    const Opened one(files, folder / "a", O_RDWR);
    {
        const Opened other(files, folder / "a", O_RDWR);
        CHECK(files.lock(other.fd, LOCK_EX) == 0);
        CHECK(files.lock(one.fd, LOCK_SH | LOCK_NB) == -EWOULDBLOCK);
        const std::uint64_t last = (std::uint64_t{1} << 63) - 1;
        CHECK(files.lock_byte(other.fd, last, true) == 0);
        CHECK(files.lock_byte(other.fd, 5, true) == 0);
        CHECK(files.lock_byte(one.fd, last, true) == -EAGAIN);
        CHECK(files.lock_byte(one.fd, 5, true) == -EAGAIN);
        CHECK(files.lock_byte(one.fd, 4, true) == 0);
        CHECK(files.lock_byte(one.fd, 6, true) == 0);
        CHECK(files.lock_byte(other.fd, 5, false) == 0);
        CHECK(files.lock_byte(one.fd, 5, true) == 0);
    }
    CHECK(files.lock(one.fd, LOCK_SH | LOCK_NB) == 0);
    CHECK(files.lock_byte(one.fd, (std::uint64_t{1} << 63) - 1, true) == 0);
}

TEST_CASE("a call that a signal interrupts is repeated") {
    const TemporaryFolder folder;
    make_file(folder / "a", "");
    struct sigaction handler {
    }, before;
    handler.sa_handler = do_nothing;  // without SA_RESTART
    REQUIRE(sigaction(SIGUSR1, &handler, &before) == 0);
    const Files files;
    const Opened held(files, folder / "a", O_RDWR), wanted(files, folder / "a", O_RDWR);
    REQUIRE(files.lock(held.fd, LOCK_EX) == 0);
    std::atomic<int> result = 1;
    std::thread waiter([&] { result = files.lock(wanted.fd, LOCK_EX); });
    for (int i = 0; i < 20; ++i) {
        pthread_kill(waiter.native_handle(), SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(result == 1);
    CHECK(files.lock(held.fd, LOCK_UN) == 0);
    waiter.join();
    CHECK(result == 0);
    sigaction(SIGUSR1, &before, nullptr);
}
