// The choice of the way of doing I/O, and the memory that it registers.
#include "runtime/cache/io/io.hpp"

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

#include "tests/runtime/cache/io/loop_content.hpp"
#include "tests/support/temporary_folder.hpp"

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

}  // namespace

TEST_CASE("where the kernel refuses io_uring, threads do it, and say why") {
    const int error = GENERATE(EPERM, ENOSYS, ENOMEM);
    const TemporaryFolder folder;
    const int fd = make_file(folder / "a", 300'001);
    const int status = status_of_child([&] {
        if (!refuse_io_uring(error)) return false;
        LoopRun run(IoKind::automatic);
        PartTally tally;
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

TEST_CASE("what was asked for is named, and io_uring is taken where it is allowed") {
    CHECK(LoopRun(IoKind::threads).loop.io_name() == "threads");
    if (!has_ring()) HOCKET_SKIP("io_uring is not available here");
    CHECK(LoopRun(IoKind::ring).loop.io_name() == "io_uring");
    CHECK(LoopRun(IoKind::automatic).loop.io_name() == "io_uring");
}
