#include "runtime/cache/io/make_io.hpp"

#include "runtime/base/error.hpp"
#include "runtime/cache/io/ring_io.hpp"
#include "runtime/cache/io/worker_io.hpp"

namespace hocket::cache {

NamedIo make_io(const Files& files, IoKind kind, unsigned depth) {
    if (kind == IoKind::threads) return {std::make_unique<WorkerIo>(files, depth), "threads"};
    try {
        return {std::make_unique<RingIo>(files, depth), "io_uring"};
    } catch (const Error& error) {
        if (kind == IoKind::ring)
            throw Error(Status::io,
                        std::string("the cache was told to use io_uring, but cannot: ") + error.what() +
                            "; allow it (sysctl kernel.io_uring_disabled, the container's seccomp "
                            "profile), or ask for threads (HOCKET_CACHE_IO=threads)");
        return {std::make_unique<WorkerIo>(files, depth), std::string("threads (") + error.what() + ")"};
    }
}

}  // namespace hocket::cache
