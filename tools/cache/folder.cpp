#include "tools/cache/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/folder.hpp"
#include "runtime/cache/segments/space.hpp"

namespace hocket::cache_tool {
namespace {

namespace fs = std::filesystem;

bool is_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

// Returns why a file is foreign, in words; "" if it is not.
std::string strangeness(const std::string& name, const struct stat& facts) {
    switch (facts.st_mode & S_IFMT) {
        case S_IFREG:
            break;
        case S_IFDIR:
            return "a folder";
        case S_IFLNK:
            return "a link";
        case S_IFIFO:
            return "a FIFO";
        case S_IFSOCK:
            return "a socket";
        default:
            return "a device";
    }
    const bool is_ours = name == "lock" || name.starts_with("flights.") || cache::parse_file_name(name);
    return is_ours ? "" : "a file that no cache has made";
}

}  // namespace

FolderListing list_folder(const std::string& folder) {
    FolderListing listing;
    bool has_lock = false;
    for (const auto& entry : fs::directory_iterator(folder)) {
        struct stat facts {};
        if (::lstat(entry.path().c_str(), &facts) != 0) continue;  // already gone
        const std::string name = entry.path().filename(), strange = strangeness(name, facts);
        has_lock = has_lock || name == "lock";
        const auto extension = entry.path().extension();
        if (S_ISREG(facts.st_mode)) listing.used_bytes += cache::taken_up(facts, extension == ".seg");
        if (!strange.empty())
            listing.foreign.push_back(fmt::format("{}: {}", entry.path().string(), strange));
        else if (extension == ".seg" || extension == ".open")
            listing.segments.push_back(entry.path());
    }
    if (listing.segments.empty() && !has_lock)
        throw std::runtime_error(fmt::format(
            "there is no cache in {}: it has neither a lock file nor segments; give the folder that jobs "
            "have in HOCKET_CACHE_FOLDER, or fill this one with hocket-cache warm",
            folder));
    std::sort(listing.segments.begin(), listing.segments.end());
    std::sort(listing.foreign.begin(), listing.foreign.end());
    return listing;
}

std::optional<SegmentReader> SegmentReader::open(const std::string& path) {
    fs::path name = path;
    const cache::Files files;
    int fd = files.open(name, O_RDONLY);
    if (fd == -ENOENT && name.extension() == ".open")
        fd = files.open(name.replace_extension(".seg"), O_RDONLY);
    if (fd == -ENOENT) return std::nullopt;
    if (fd < 0) throw std::runtime_error(fmt::format("cannot be opened: {}", std::strerror(-fd)));
    SegmentReader reader(fd);
    reader.read_ends(name.extension() == ".seg");
    return reader;
}

void SegmentReader::read_ends(bool is_sealed) {
    if (fstat(fd_.get(), &facts_) != 0)
        throw std::runtime_error(fmt::format("cannot be looked at: {}", std::strerror(errno)));
    cache::Page page{};
    const auto read_page = [&](std::uint64_t offset) {
        const std::string problem = read(page.data(), page.size(), offset);
        if (!problem.empty()) throw std::runtime_error(problem);
    };
    read_page(0);
    const auto header = cache::decode_header(page);
    if (!header) throw std::runtime_error("its header is damaged, or it is of another version");
    header_ = *header;
    if (!is_sealed) return;
    if (facts_.st_size < static_cast<off_t>(2 * page.size())) throw std::runtime_error("its end is missing");
    read_page(static_cast<std::uint64_t>(facts_.st_size) - page.size());
    footer_ = cache::decode_footer(header_, page);
    if (!footer_) throw std::runtime_error("its footer is damaged, or its end is missing");
    has_holes_ = has_hole(header_.data_begin(), footer_->data_end);
}

std::string SegmentReader::read(std::byte* to, std::size_t bytes, std::uint64_t offset) const {
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t got = pread(fd_.get(), to + done, bytes - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fmt::format("cannot be read at {}: {}", offset + done, std::strerror(errno));
        if (got == 0) return fmt::format("ends at {} before its time", offset + done);
        done += static_cast<std::size_t>(got);
    }
    return "";
}

void SegmentReader::drop_cached() const {
    posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

bool SegmentReader::visit(const Visit& visit) const {
    const std::uint64_t slots = footer_ ? footer_->used_slots : header_.slots;
    std::vector<std::byte> piece;
    std::uint64_t checksum = 0;
    for (std::uint64_t first = 0; first < slots; first += cache::index_piece) {
        const std::uint64_t count = std::min(cache::index_piece, slots - first);
        piece.resize(count * cache::entry_bytes);
        const std::string problem =
            read(piece.data(), piece.size(), cache::segment_page + first * cache::entry_bytes);
        if (!problem.empty()) throw std::runtime_error("its index " + problem);
        checksum = cache::index_checksum(header_, checksum, piece);
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto bytes = std::span(piece).subspan(i * cache::entry_bytes, cache::entry_bytes);
            if (!is_zero(bytes) && !visit(first + i, cache::decode_entry(header_, first + i, bytes)))
                return true;
        }
    }
    return !footer_ || checksum == footer_->index_checksum;
}

std::string SegmentReader::check(const cache::Entry& entry, std::vector<std::byte>& buffer) const {
    const auto size = static_cast<std::uint64_t>(facts_.st_size);
    if (entry.offset > size || entry.bytes > size - entry.offset) return "lies behind the file's end";
    buffer.resize(entry.bytes);
    std::string problem = read(buffer.data(), buffer.size(), entry.offset);
    if (!problem.empty()) return problem;
    const bool is_right = cache::payload_checksum(header_.identity, entry, buffer) == entry.checksum;
    if (is_right) return "";
    const bool is_hole = has_hole(entry.offset, entry.offset + entry.bytes);
    return is_hole ? "was damaged, and its space was given back" : "fails its checksum";
}

bool SegmentReader::has_hole(std::uint64_t from, std::uint64_t to) const {
    const off_t hole = lseek(fd_.get(), static_cast<off_t>(from), SEEK_HOLE);
    return hole >= 0 && hole < static_cast<off_t>(to);
}

// A file system may store the zeros of holes, so the checksum decides.
bool SegmentReader::is_given_back(const cache::Entry& entry, std::vector<std::byte>& buffer) const {
    return has_holes_ && has_hole(entry.offset, entry.offset + entry.bytes) && !check(entry, buffer).empty();
}

}  // namespace hocket::cache_tool
