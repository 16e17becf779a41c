#include "runtime/cache/segments/space.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <vector>

#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/folder.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t MiB = 1 << 20;
constexpr std::uint64_t least_slots = 64, bytes_per_slot = 16 * 1024, bytes_per_small_slot = 256;
constexpr std::uint64_t most_small_segment = 64 * MiB;
constexpr std::uint64_t most_payload = std::uint64_t{1} << 48;

// Returns the size of the smallest file with this many slots that holds the payload.
std::uint64_t file_for(std::uint64_t slots, std::uint64_t payload_bytes) {
    const std::uint64_t data_begin = align_up(entry_offset(slots), segment_page);
    return data_begin + align_up(payload_bytes, segment_page) + segment_page;
}

// A sealed segment that might be evicted.
struct Candidate {
    std::int64_t used_ns;
    SegmentName name;
    std::uint64_t bytes;
};

std::vector<Candidate> candidates(const Files& files, const std::string& folder) {
    std::vector<SegmentName> names;
    std::vector<Candidate> found;
    if (list_segments(files, folder, names) < 0) return found;
    for (const SegmentName& name : names) {
        struct stat status {};
        if (name.stage != SegmentStage::sealed || files.entry_status(path_of(folder, name), status) < 0)
            continue;
        found.push_back(
            {status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec, name, taken_up(status, true)});
    }
    std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
        return std::tie(a.used_ns, a.name.identity) < std::tie(b.used_ns, b.name.identity);
    });
    return found;
}

bool evict_one(const Files& files, const std::string& path, const Digest& dataset) {
    const Descriptor fd(files.open(path, O_RDONLY));
    if (fd.get() < 0) return false;
    const auto header = read_header(files, fd.get());
    if (!header || header->dataset == dataset) return false;
    return files.lock(fd.get(), LOCK_EX | LOCK_NB) == 0 && files.unlink(path) == 0;
}

}  // namespace

std::uint64_t taken_up(const struct stat& status, bool is_sealed) {
    const std::uint64_t blocks = static_cast<std::uint64_t>(status.st_blocks) * 512;
    return is_sealed ? blocks : std::max(static_cast<std::uint64_t>(status.st_size), blocks);
}

std::optional<SegmentSize> plan_segment(std::uint64_t payload_bytes, std::uint64_t limit,
                                        std::uint64_t at_most) {
    if (payload_bytes > most_payload) return {};
    const bool is_small = payload_bytes < small_payload;
    std::uint64_t target = limit ? std::clamp(limit / 128, MiB, 1024 * MiB) : 256 * MiB;
    // An index takes a fifth of such a segment.
    if (is_small) target = std::min(target, most_small_segment);
    const std::uint64_t least = file_for(least_slots, payload_bytes);
    std::uint64_t file = align_up(std::max(target, least), segment_page);
    if (file + extent_slack(file) > at_most) {
        if (least + extent_slack(least) > at_most) return {};
        // The largest x with x + x / 128 + 2 pages <= at_most, give or take a page or two.
        file = (at_most - 2 * segment_page) / 129 * 128 / segment_page * segment_page;
        file = std::max(file, least);
    }
    const std::uint64_t per_slot = is_small ? bytes_per_small_slot : bytes_per_slot;
    const std::uint64_t slots = std::max(least_slots, file / per_slot);
    return SegmentSize{file, file_for(slots, payload_bytes) <= file ? slots : least_slots};
}

std::int64_t used_bytes(const Files& files, const std::string& folder) {
    std::vector<std::string> names;
    if (const int result = files.list(folder, names); result < 0) return result;
    std::uint64_t sum = 0;
    for (const std::string& each : names) {
        struct stat status {};
        int result = files.entry_status(fmt::format("{}/{}", folder, each), status);
        auto name = parse_file_name(each);
        if (result == -ENOENT && name && name->stage == SegmentStage::open) {  // it has just been sealed
            name->stage = SegmentStage::sealed;
            result = files.entry_status(path_of(folder, *name), status);
        }
        if (result == -ENOENT) continue;
        if (result < 0) return result;
        if (!S_ISREG(status.st_mode)) continue;
        const bool is_sealed = name && name->stage == SegmentStage::sealed;
        sum += taken_up(status, is_sealed);
        if (name && !is_sealed) sum += extent_slack(static_cast<std::uint64_t>(status.st_size));
    }
    return static_cast<std::int64_t>(sum);
}

std::uint64_t evict(const Files& files, const std::string& folder, const Digest& dataset,
                    std::uint64_t bytes_to_free) {
    std::uint64_t evicted = 0, freed = 0;
    for (const Candidate& each : candidates(files, folder)) {
        if (freed >= bytes_to_free) break;
        if (!evict_one(files, path_of(folder, each.name), dataset)) continue;
        freed += each.bytes;
        ++evicted;
    }
    return evicted;
}

}  // namespace hocket::cache
