// The loop's file operations, by io_uring and by threads.
#include <fcntl.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cache/io/loop.hpp"
#include "tests/runtime/cache/io/loop_content.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace hocket::cache;
using namespace hocket::test;

namespace {

Task<> write_part(Loop& loop, int fd, std::size_t bytes, std::uint64_t offset, PartTally& tally) {
    const auto data = content(offset, bytes);
    const std::int64_t n = co_await loop.write(fd, data.data(), bytes, offset);
    if (n < 0) {
        ++tally.failed;
    } else {
        ++(n == static_cast<std::int64_t>(bytes) ? tally.right : tally.wrong);
    }
}

using Aligned = std::unique_ptr<std::byte, Freed>;

Aligned aligned(std::size_t bytes) {
    return Aligned(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
}

}  // namespace

TEST_CASE("many reads at once get what is there, however few may be in flight") {
    FOR_EACH_KIND(kind);
    const unsigned depth = GENERATE(1u, 3u, 64u);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 300'001);
    LoopRun run(kind, nullptr, depth);
    PartTally tally;
    for (unsigned i = 0; i < 100; ++i) run.loop.spawn(read_parts(run.loop, fd, 300'001, i, 20, tally));
    run.loop.stop();
    run.loop.run();
    Files::close(fd);
    CHECK(tally.right == 2000);
    CHECK(tally.wrong + tally.failed == 0);
}

TEST_CASE("the next operations begin before those that are done are looked at") {
    FOR_EACH_KIND(kind);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 1000);
    std::atomic<int> begun = 0;
    LoopRun run(
        kind,
        [&](FileCall, const std::string&) {
            ++begun;
            return Fault{};
        },
        2);
    std::vector<int> begun_by_then;
    const auto read = [&]() -> Task<> {
        std::byte byte{};
        CHECK_RESULT(run.loop.read(fd, &byte, 1, 1), 1);
        begun_by_then.push_back(begun);
    };
    for (int i = 0; i < 4; ++i) run.loop.spawn(read());
    run.loop.stop();
    run.loop.run();
    Files::close(fd);
    REQUIRE(begun_by_then.size() == 4);
    // Threads may begin what they were given a moment later; the ring's operations begin with the call.
    if (kind == IoKind::ring) CHECK(begun_by_then.front() >= 3);
}

TEST_CASE("operations do what the system calls do, errors included") {
    FOR_EACH_KIND(kind);
    const TemporaryFolder folder;
    LoopRun run(kind);
    run.run([&]() -> Task<> {
        Loop& loop = run.loop;
        const int fd = co_await loop.open(folder / "a", O_RDWR | O_CREAT | O_EXCL);
        REQUIRE(fd >= 0);
        CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        const auto data = content(0, 5000);
        CHECK_RESULT(loop.write(fd, data.data(), 5000, 100), 5000);
        std::vector<std::byte> back(5000);
        CHECK_RESULT(loop.read(fd, back.data(), 5000, 100), 5000);
        CHECK(back == data);
        CHECK_RESULT(loop.read(fd, back.data(), 5000, 5000), 100);
        CHECK_RESULT(loop.read(fd, back.data(), 0, 0), 0);
        struct statx found;
        CHECK_RESULT(loop.status(folder / "a", found), 0);
        CHECK(found.stx_size == 5100);
        CHECK(S_ISREG(found.stx_mode));
        CHECK(found.stx_mtime.tv_sec > 0);
        CHECK_RESULT(loop.close(fd), 0);
        CHECK_RESULT(loop.close(fd), -EBADF);
        CHECK_RESULT(loop.read(fd, back.data(), 1, 0), -EBADF);
        CHECK_RESULT(loop.write(fd, back.data(), 1, 0), -EBADF);
        CHECK_RESULT(loop.status(folder / "b", found), -ENOENT);
        CHECK_RESULT(loop.open(folder / "b", O_RDONLY), -ENOENT);
        CHECK_RESULT(loop.open(folder / "a", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
        CHECK_RESULT(loop.open(folder.path(), O_RDONLY), -irregular_file);
        CHECK_RESULT(loop.open("/dev/zero", O_RDONLY), -irregular_file);
    });
}

TEST_CASE("every Nth operation fails, and only that") {
    FOR_EACH_KIND(kind);
    const int nth = GENERATE(1, 2, 3, 7, 50);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 100'000);
    std::atomic<int> calls = 0, faults = 0;
    LoopRun run(kind, [&](FileCall call, const std::string&) {
        const bool fails = call == FileCall::read && ++calls % nth == 0;
        faults += fails;
        return Fault{fails ? EIO : 0};
    });
    PartTally tally;
    for (unsigned i = 0; i < 10; ++i) run.loop.spawn(read_parts(run.loop, fd, 100'000, i, 50, tally));
    run.loop.stop();
    run.loop.run();
    Files::close(fd);
    CHECK(tally.failed == faults);
    CHECK(tally.failed >= 500 / nth);
    CHECK(tally.right + tally.failed == 500);
}

TEST_CASE("faults say which call, and of which file") {
    FOR_EACH_KIND(kind);
    const TemporaryFolder folder;
    const int file = make_file(folder / "a", 1000);
    std::vector<std::pair<FileCall, std::string>> asked;
    std::mutex mutex;
    LoopRun run(kind, [&](FileCall call, const std::string& path) {
        const std::lock_guard lock(mutex);
        asked.emplace_back(call, path);
        return Fault{ENOSPC};
    });
    const std::string a = folder / "a", b = folder / "b";
    run.run([&]() -> Task<> {
        Loop& loop = run.loop;
        struct statx found;
        std::byte byte{};
        CHECK_RESULT(loop.open(a, O_RDONLY), -ENOSPC);
        CHECK_RESULT(loop.open(b, O_RDWR | O_CREAT), -ENOSPC);
        CHECK_RESULT(loop.status(a, found), -ENOSPC);
        CHECK_RESULT(loop.read(file, &byte, 1, 1), -ENOSPC);
        CHECK_RESULT(loop.write(file, &byte, 1, 1), -ENOSPC);
        CHECK_RESULT(loop.close(file), 0);
        CHECK(byte == std::byte{});
    });
    CHECK(asked == std::vector<std::pair<FileCall, std::string>>{{FileCall::open, a},
                                                                 {FileCall::create, b},
                                                                 {FileCall::status, a},
                                                                 {FileCall::read, ""},
                                                                 {FileCall::write, ""}});
    CHECK_FALSE(std::filesystem::exists(b));
}

TEST_CASE("short transfers go on where they stopped, with others between them") {
    FOR_EACH_KIND(kind);
    const TemporaryFolder folder;
    const int source = make_file(folder / "a", 100'000), target = make_file(folder / "b", 0);
    std::atomic<unsigned> calls = 0;
    LoopRun run(
        kind,
        [&](FileCall, const std::string&) {
            return Fault{0, 1 + ++calls * 2654435761u % 5000};
        },
        8);
    PartTally tally;
    for (unsigned i = 0; i < 20; ++i) {
        run.loop.spawn(read_parts(run.loop, source, 100'000, i, 20, tally));
        run.loop.spawn(write_part(run.loop, target, 5000, i * std::uint64_t{5000}, tally));
    }
    run.loop.stop();
    run.loop.run();
    CHECK(tally.right == 20 * 20 + 20);
    const Files files;
    std::vector<std::byte> all(100'001);
    CHECK(files.read(target, all.data(), 100'001, 0) == 100'000);
    CHECK(is_content(all.data(), 100'000, 0));
    Files::close(source);
    Files::close(target);
}

TEST_CASE("a disk that moves nothing ends a read of the loop, and fails a write") {
    FOR_EACH_KIND(kind);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 1000);
    LoopRun run(kind, [](FileCall, const std::string&) { return Fault{0, 0}; });
    run.run([&]() -> Task<> {
        std::byte byte{};
        CHECK_RESULT(run.loop.read(fd, &byte, 1, 1), 0);
        CHECK_RESULT(run.loop.write(fd, &byte, 1, 1), -EIO);
    });
    Files::close(fd);
}

TEST_CASE("direct reads of the loop stop at the end of the file, and go on from a short one") {
    FOR_EACH_KIND(kind);
    const TemporaryFolder folder;
    const std::size_t size = GENERATE(as<std::size_t>(), 1, 512, 5000, 8192);
    const std::uint64_t at_most = GENERATE(as<std::uint64_t>(), 100, 1000, UINT64_MAX);
    const int fd = make_file(folder / "a", size, O_DIRECT);
    if (fd == -EINVAL) HOCKET_SKIP("the temporary folder's file system has no direct I/O");
    const Aligned memory = aligned(16'384);
    LoopRun run(kind, [=](FileCall, const std::string&) { return Fault{0, at_most}; });
    run.run([&]() -> Task<> {
        const std::int64_t n = co_await run.loop.read(fd, memory.get(), 16'384, 0);
        CHECK(n == static_cast<std::int64_t>(size));
        CHECK(is_content(memory.get(), size, 0));
    });
    Files::close(fd);
}
