#include "runtime/cache/loading/source_reads.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <coroutine>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "runtime/base/xxh3.hpp"
#include "runtime/cache/objects/object_store.hpp"

namespace hocket::cache {
namespace {

std::string error_text(std::int64_t negative) {
    return std::generic_category().message(static_cast<int>(-negative));
}

[[noreturn]] void source_failed(const std::string& path, const char* call, std::int64_t negative) {
    throw Error(Status::io,
                fmt::format("the source cannot be read: {}: {}: {}", path, call, error_text(negative)));
}

[[noreturn]] void source_changed(const std::string& path, const std::string& how) {
    throw Error(Status::io,
                fmt::format("the source has changed since the cache was opened: {}: {}; open the cache again",
                            path, how));
}

// Returns true if the kernel knows the state of an open file without asking anybody: its file system lies on
// a block device. To ask takes io_uring a thread of the kernel's, and longer than the read of a small file.
bool is_known_here(const struct statx& state) {
    return state.stx_dev_major != 0;
}

// Awaits an object, or the part of it.
struct Arrival {
    Loop& loop;
    const FromStore& from;
    std::byte* const to;
    const Loop::Clock::time_point deadline;
    std::optional<Error> error = std::nullopt;

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
        from.store.read(from.part, to, deadline, [this, waiting](std::optional<Error> failed) {
            error = std::move(failed);
            loop.post([waiting] { waiting.resume(); });
        });
    }
    void await_resume() const {}
};

}  // namespace

Task<> SourceReads::read(Load& load) {
    if (!options_.source && load.owner_failed) throw Error(*load.owner_failed);
    if (!options_.source)
        throw Error(Status::not_found,
                    fmt::format("sample {} has not been put, and the cache has no source", load.key));
    const Origin origin = options_.source->origin(load.key);
    if (const auto* file = std::get_if<WholeFile>(&origin)) {
        co_await read_whole(load, *file);
    } else if (const auto* part = std::get_if<PartOfFile>(&origin)) {
        co_await read_part(load, *part);
    } else if (const auto* object = std::get_if<FromStore>(&origin)) {
        co_await read_object(load, *object);
    } else {
        co_await calls_.read(load);
    }
    if (load.gave_up) co_return;
    ++counters_.source_reads;
    counters_.source_read_bytes += load.bytes;
    load.is_fresh = true;
}

Task<> SourceReads::read_part(Load& load, const PartOfFile& part) {
    ArenaBlock block = co_await room_.wait(load, part.bytes);
    if (load.gave_up) co_return;
    const std::int64_t got = co_await loop_.read(part.fd, block.data(), part.bytes, part.offset);
    if (got < 0) source_failed(part.path, "read", got);
    if (static_cast<std::uint64_t>(got) < part.bytes)
        source_changed(part.path, fmt::format("it ends in the middle of sample {}", load.key));
    struct stat now;
    if (fstat(part.fd, &now) != 0) source_failed(part.path, "fstat", -errno);
    if (now.st_mtim.tv_sec * std::int64_t{1000000000} + now.st_mtim.tv_nsec != part.changed_ns)
        source_changed(part.path, "it has been written");
    if (part.checksum && XXH3_64bits(block.data(), part.bytes) != *part.checksum)
        throw Error(Status::io,
                    fmt::format("{}: {} bytes at {} do not have the checksum of the index; if the file has "
                                "changed, make the index anew (hocket-cache index)",
                                part.path, part.bytes, part.offset));
    load.block = std::move(block);
    load.bytes = part.bytes;
}

Task<> SourceReads::read_object(Load& load, const FromStore& object) {
    ArenaBlock block = co_await room_.wait(load, object.part.bytes);
    if (load.gave_up) co_return;
    Arrival arrival{loop_, object, block.data(), load.deadline};
    co_await arrival;
    if (arrival.error) throw *arrival.error;
    load.block = std::move(block);
    load.bytes = object.part.bytes;
}

Task<> SourceReads::read_whole(Load& load, const WholeFile& file) {
    ArenaBlock block = co_await room_.wait(load, file.bytes);
    if (load.gave_up) co_return;
    const int fd = co_await loop_.open(file.path, O_RDONLY);
    if (fd == -ENOENT) source_changed(file.path, "it is gone");
    if (fd == -irregular_file) source_changed(file.path, "it is not a regular file any more");
    if (fd < 0) source_failed(file.path, "open", fd);
    const std::int64_t got = co_await loop_.read(fd, block.data(), file.bytes, 0);
    struct statx now;
    int status = files_.status_at_once(fd, now);
    Files::close(fd);
    if (got < 0) source_failed(file.path, "read", got);
    if (status == 0 && !is_known_here(now)) status = co_await loop_.status(file.path, now);
    if (status == -ENOENT) source_changed(file.path, "it is gone");
    if (status < 0) source_failed(file.path, "statx", status);
    const std::int64_t changed_ns = now.stx_mtime.tv_sec * std::int64_t{1000000000} + now.stx_mtime.tv_nsec;
    if (now.stx_size != file.bytes || static_cast<std::uint64_t>(got) != file.bytes)
        source_changed(file.path, fmt::format("it had {} bytes, now {}", file.bytes, now.stx_size));
    if (changed_ns != file.changed_ns) source_changed(file.path, "it has been written");
    load.block = std::move(block);
    load.bytes = file.bytes;
}

}  // namespace hocket::cache
