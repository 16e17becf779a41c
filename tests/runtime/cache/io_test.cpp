// Which way of doing I/O is taken, and the memory that it registers.
#include "runtime/cache/io.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/runtime/cache/loop_content.hpp"

using namespace hocket::cache;
using namespace hocket::test;

namespace {

bool refuse_io_uring(int error) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter{sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// As the kernel counts them, of all rings of this process.
long registered_buffers() {
    long count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
        std::ifstream info(entry.path());
        for (std::string word; info >> word;)
            if (word == "UserBufs:" && info >> word) count += std::stol(word);
    }
    return count;
}

}  // namespace

TEST_CASE("Transfers within the arena, across its chunks, and beside it move the same bytes") {
    FOR_EACH_KIND(kind);
    // 1 GiB and a bit, in which the same 2 MiB repeat themselves.
    constexpr std::size_t part = 2 << 20, size = (std::size_t{1} << 30) + part, guard = 1 << 20;
    const int backing = memfd_create("arena", MFD_CLOEXEC);
    REQUIRE(ftruncate(backing, part) == 0);
    auto* const all = static_cast<std::byte*>(mmap(nullptr, size + 2 * guard, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    REQUIRE(all != MAP_FAILED);
    std::byte* const arena = all + guard;
    for (std::size_t at = 0; at < size; at += part)
        REQUIRE(mmap(arena + at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, backing, 0) ==
                arena + at);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 100'000), copy = make_file(folder / "b", 0);
    {
        LoopRun run(kind);
        run.loop.register_arena({arena, size});
        if (kind == IoKind::ring && getuid() == 0) CHECK(registered_buffers() == 2);
        run.run([&]() -> Task<> {
            const std::size_t chunk = std::size_t{1} << 30;
            for (const std::ptrdiff_t at :
                 {std::ptrdiff_t{0}, std::ptrdiff_t{-100'000}, std::ptrdiff_t{-500},
                  static_cast<std::ptrdiff_t>(chunk - 500), static_cast<std::ptrdiff_t>(chunk - 100'000),
                  static_cast<std::ptrdiff_t>(chunk), static_cast<std::ptrdiff_t>(size - 500),
                  static_cast<std::ptrdiff_t>(size)}) {
                std::byte* const to = arena + at;
                std::memset(to, 0x5a, 100'000);
                CHECK_RESULT(run.loop.read(fd, to, 100'000, 0), 100'000);
                CHECK(is_content(to, 100'000, 0));
                CHECK_RESULT(run.loop.write(copy, to, 100'000, 0), 100'000);
                std::vector<std::byte> back(100'000);
                CHECK_RESULT(run.loop.read(copy, back.data(), 100'000, 0), 100'000);
                CHECK(is_content(back.data(), 100'000, 0));
                CHECK(ftruncate(copy, 0) == 0);
            }
        });
    }
    munmap(all, size + 2 * guard);
    for (const int each : {fd, copy, backing}) Files::close(each);
}

TEST_CASE("Where the kernel refuses io_uring, threads do it, and say why") {
    const int error = GENERATE(EPERM, ENOSYS, ENOMEM);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 300'001);
    const int status = status_of_child([&] {
        if (!refuse_io_uring(error)) return false;
        LoopRun run(IoKind::automatic);
        Tally tally;
        for (unsigned i = 0; i < 10; ++i) run.loop.spawn(read_parts(run.loop, fd, 300'001, i, 20, tally));
        run.loop.stop();
        run.loop.run();
        bool is_refused = false;
        try {
            const LoopRun ring(IoKind::ring);
        } catch (const hocket::Error& refused) {
            is_refused = refused.status() == hocket::Status::io &&
                         std::string(refused.what()).find(std::strerror(error)) != std::string::npos &&
                         std::string(refused.what()).find("HOCKET_CACHE_IO=threads") != std::string::npos;
        }
        return is_refused && tally.right == 200 &&
               run.loop.io_name() == std::string("threads (io_uring: ") + std::strerror(error) + ")";
    });
    Files::close(fd);
    CHECK(status == 0);
}

TEST_CASE("What was asked for is named, and io_uring is taken where it is allowed") {
    CHECK(LoopRun(IoKind::threads).loop.io_name() == "threads");
    if (!has_ring()) HOCKET_SKIP("io_uring is not available here");
    CHECK(LoopRun(IoKind::ring).loop.io_name() == "io_uring");
    CHECK(LoopRun(IoKind::automatic).loop.io_name() == "io_uring");
}
