#include "runtime/cache/environment.hpp"

#include <fmt/format.h>

namespace hocket::cache {

CacheOptions from_environment(const Environment& environment) {
    const EnvironmentReader reader(environment);
    CacheOptions options;
    options.folder = reader.text("HOCKET_CACHE_FOLDER").value_or("");
    options.memory_bytes = reader.bytes("HOCKET_CACHE_MEMORY").value_or(options.memory_bytes);
    options.disk_bytes = reader.bytes("HOCKET_CACHE_DISK").value_or(0);
    if (const auto timeout = reader.timeout("HOCKET_TIMEOUT_MS", 1))
        options.timeout = std::chrono::milliseconds(*timeout);
    if (const auto io = reader.text("HOCKET_CACHE_IO")) {
        if (*io != "io_uring" && *io != "threads")
            throw Error(Status::invalid_argument,
                        fmt::format("HOCKET_CACHE_IO is \"{}\"; it must be io_uring or threads", *io));
        options.io = *io == "io_uring" ? IoKind::ring : IoKind::threads;
    }
    return options;
}

}  // namespace hocket::cache
