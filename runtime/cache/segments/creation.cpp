#include "runtime/cache/segments/creation.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/folder.hpp"
#include "runtime/cache/segments/space.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t least_direct_unit = 512;

// Returns the unit of payloads that bypass the page cache in a file at that path.
std::uint64_t large_unit(const Files& files, const std::string& path) {
    const Descriptor direct(files.open(path, O_RDWR | O_DIRECT));
    return std::max(least_direct_unit, direct.get() < 0 ? 0 : direct_alignment(direct.get()));
}

// Allocates the space first, so that no later write can find the disk full.
int fill_in(const Files& files, int fd, const std::string& path, bool is_small, SegmentHeader& header) {
    if (const int error = files.lock(fd, LOCK_EX | LOCK_NB)) return error;
    if (const int error = files.allocate(fd, header.file_bytes)) return error;
    header.unit = is_small ? small_unit : large_unit(files, path);
    Page page;
    encode_header(header, page);
    const std::int64_t written = files.write(fd, page.data(), page.size(), 0);
    if (written < 0) return static_cast<int>(written);
    return written == static_cast<std::int64_t>(page.size()) ? 0 : -EIO;
}

// Returns 0, or -errno and leaves no file.
int make_file(const Files& files, const std::string& folder, bool is_small, SegmentHeader header,
              std::shared_ptr<Segment>& segment) {
    if (::getrandom(header.identity.data(), sizeof header.identity, 0) != sizeof header.identity)
        return -errno;
    const std::string path = path_of(folder, {header.identity, SegmentStage::making});
    Descriptor fd(files.open(path, O_RDWR | O_CREAT | O_EXCL));
    if (fd.get() < 0) return fd.get();
    int error = fill_in(files, fd.get(), path, is_small, header);
    if (!error) error = files.rename(path, path_of(folder, {header.identity, SegmentStage::open}));
    if (error) {
        files.unlink(path);
        return error;
    }
    segment = std::make_shared<Segment>(files, folder, header, std::move(fd), SegmentStage::open, true);
    return 0;
}

// Returns how many bytes a new file and its slack may take. Makes room for `wanted` by evicting other
// datasets.
std::optional<std::uint64_t> room_for(std::uint64_t wanted, const Files& files, const std::string& folder,
                                      const SegmentRequest& request, Creation& creation) {
    if (request.limit == 0) return UINT64_MAX;
    const auto left = [&]() -> std::optional<std::uint64_t> {
        const std::int64_t used = used_bytes(files, folder);
        if (used < 0) {
            creation.trouble = describe(folder, static_cast<int>(used));
            return {};
        }
        return request.limit - std::min(request.limit, static_cast<std::uint64_t>(used));
    };
    const auto now = left();
    if (!now || *now >= wanted) return now;
    creation.evicted = evict(files, folder, request.dataset, wanted - *now);
    return creation.evicted ? left() : now;
}

const char* advice(int error) {
    if (error == -ENOSPC || error == -EDQUOT) return ": free some of its file system, or lower the limit";
    if (error == -EROFS || error == -EACCES || error == -EPERM) return ": make it writable";
    return ": see the kernel's log for the state of its disk";
}

std::string limit_text(const std::string& folder, const SegmentRequest& request, std::uint64_t left) {
    return fmt::format(
        "{}: {} of its limit of {} bytes are left, too few for a segment with a payload of {} bytes: "
        "raise the limit (HOCKET_CACHE_DISK), or remove the folder",
        folder, left, request.limit, request.payload_bytes);
}

// If the disk is full, it may still have room for a smaller segment.
void make_in(std::uint64_t room, const Files& files, const std::string& folder, const SegmentRequest& request,
             Creation& creation) {
    int error = 0;
    for (std::uint64_t at_most = room;;) {
        const auto size = plan_segment(request.payload_bytes, request.limit, at_most);
        if (!size && !error) creation.trouble = limit_text(folder, request, room);
        if (!size) break;
        error = make_file(
            files, folder, request.payload_bytes < small_payload,
            {request.dataset, {}, size->file_bytes, size->slots, 0, request.label, request.source_samples},
            creation.segment);
        if (error != -ENOSPC) break;
        at_most = size->file_bytes / 2;
    }
    if (error) creation.trouble = describe(folder, error) + advice(error);
}

}  // namespace

Creation create_segment(const Files& files, const std::string& folder, const SegmentRequest& request) {
    Creation creation;
    const FolderLock lock(files, folder, folder_patience);
    if (!lock.is_held()) {
        creation.trouble = lock.why();
        return creation;
    }
    creation.adoption = adopt(files, folder);
    int error = lock.read_creations(creation.count);

    const auto wanted = plan_segment(request.payload_bytes, request.limit, UINT64_MAX);
    const auto room = room_for(wanted ? wanted->file_bytes + extent_slack(wanted->file_bytes) : 0, files,
                               folder, request, creation);
    if (!error && room) make_in(*room, files, folder, request, creation);
    if (creation.segment) error = lock.write_creations(++creation.count);
    if (!error) return creation;
    // A segment that the creation count does not announce must not hold anything.
    if (creation.segment) files.unlink(creation.segment->path());
    creation.segment.reset();
    creation.trouble = describe(folder + "/lock", error) + advice(error);
    return creation;
}

}  // namespace hocket::cache
