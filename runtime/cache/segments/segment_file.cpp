#include "runtime/cache/segments/segment_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

namespace hocket::cache {
namespace {

constexpr std::uint64_t sector = 512;

// Returns 0, -errno, or -EIO if only a part was moved.
int all_or_error(std::int64_t moved, std::uint64_t bytes) {
    if (moved < 0) return static_cast<int>(moved);
    return static_cast<std::uint64_t>(moved) == bytes ? 0 : -EIO;
}

}  // namespace

std::optional<SegmentHeader> read_header(const Files& files, int fd) {
    Page page;
    if (files.read(fd, page.data(), page.size(), 0) != static_cast<std::int64_t>(page.size())) return {};
    const auto header = decode_header(page);
    struct stat status {};
    if (!header || ::fstat(fd, &status) < 0) return {};
    return static_cast<std::uint64_t>(status.st_size) < header->data_begin() ? std::nullopt : header;
}

std::uint64_t direct_alignment(int fd) {
    struct statx facts {};
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN)) {
        if (facts.stx_dio_offset_align == 0) return 0;
        const std::uint64_t most = std::max(
            {sector, std::uint64_t{facts.stx_dio_offset_align}, std::uint64_t{facts.stx_dio_mem_align}});
        return std::bit_ceil(most) <= segment_page ? std::bit_ceil(most) : 0;
    }
    // Linux before 6.1 does not report the alignment, so try to read a sector.
    const PageBuffer buffer(segment_page);
    return ::pread(fd, buffer.data() + sector, sector, sector) >= 0 ? sector : 0;
}

Segment::Segment(const Files& files, std::string folder, const SegmentHeader& header, Descriptor fd,
                 SegmentStage stage, bool is_owned)
    : files_(files),
      folder_(std::move(folder)),
      header_(header),
      is_owned_(is_owned),
      stage_(stage),
      buffered_(std::move(fd)),
      filling_(header_) {
    if (header_.unit < sector) return;
    Descriptor direct(files_.open(path(), (is_owned ? O_RDWR : O_RDONLY) | O_DIRECT));
    if (direct.get() < 0) return;
    const std::uint64_t alignment = direct_alignment(direct.get());
    if (alignment > 0 && alignment <= header_.unit) direct_ = std::move(direct);
}

bool Segment::is_gone() const {
    struct stat status {};
    return ::fstat(payload_fd(), &status) == 0 && status.st_nlink == 0;
}

std::uint64_t Segment::size() const {
    struct stat status {};
    return ::fstat(payload_fd(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool Segment::read_page(std::uint64_t offset, PageBuffer& page) const {
    return files_.read(index_fd(), page.data(), segment_page, offset) ==
           static_cast<std::int64_t>(segment_page);
}

std::optional<SegmentHeader> Segment::reread_header() const {
    PageBuffer page(segment_page);
    if (!read_page(0, page)) return {};
    return decode_header({page.data(), page.size()});
}

std::optional<SegmentFooter> Segment::read_footer() const {
    PageBuffer page(segment_page);
    const std::uint64_t end = size();
    if (end < header_.data_begin() + segment_page || !read_page(end - segment_page, page)) return {};
    const auto footer = decode_footer(header_, {page.data(), page.size()});
    if (!footer || footer_offset(footer->data_end) != end - segment_page) return {};
    return footer;
}

bool Segment::settle() {
    const std::scoped_lock lock(mutex_);
    return settle_steadily();
}

bool Segment::settle_steadily() {
    if (buffered_.get() >= 0 && files_.lock(buffered_.get(), LOCK_SH | LOCK_NB) < 0) return false;
    if (!is_direct()) return true;
    if (files_.lock(direct_.get(), LOCK_SH | LOCK_NB) < 0) return false;
    buffered_ = Descriptor();
    return true;
}

bool Segment::is_abandoned() const {
    if (files_.lock(buffered_.get(), LOCK_SH | LOCK_NB) < 0) return false;
    files_.lock(buffered_.get(), LOCK_UN);
    return true;
}

int Segment::write_entry(std::uint64_t slot, const Entry& entry) const {
    std::array<std::byte, entry_bytes> bytes;
    encode_entry(header_, slot, entry, bytes.data());
    return all_or_error(files_.write(buffered_.get(), bytes.data(), bytes.size(), entry_offset(slot)),
                        bytes.size());
}

int Segment::sync() {
    const std::scoped_lock lock(mutex_);
    return is_lost() || is_sealed() ? lost_.load() : lost_by(files_.sync_data(buffered_.get()));
}

// A success takes nothing back: was_removed() may have been called during the sync.
int Segment::lost_by(int error) {
    if (error) lost_ = error;
    return lost_;
}

Segment::Sealing Segment::seal() {
    const std::scoped_lock lock(mutex_);
    if (is_lost()) return {Outcome::lost, lost_};
    if (is_sealed()) return {Outcome::sealed};
    Contents contents;
    if (const int error = take_stock(contents)) return {Outcome::kept, error, contents.bad_entries};
    if (contents.used_slots == 0) {
        const int error = files_.unlink(path());
        return {error ? Outcome::kept : Outcome::empty, error, contents.bad_entries};
    }
    Sealing sealing = finish(contents);
    sealing.bad_entries = contents.bad_entries;
    return sealing;
}

// Determines how much space the good entries take. Zeroes bad ones (incomplete writes), so that they are
// counted only once.
int Segment::take_stock(Contents& contents) const {
    const std::uint64_t file_bytes = size();
    std::vector<std::uint64_t> bad;
    const auto look = [&](std::uint64_t slot, std::span<const std::byte> bytes) {
        if (is_unused(bytes)) return;
        const auto entry = decode_entry(header_, slot, bytes);
        if (!entry || footer_offset(entry->offset + entry->bytes) + segment_page > file_bytes)
            return bad.push_back(slot);
        contents.used_slots = slot + 1;
        contents.data_end = std::max(contents.data_end, entry->offset + entry->bytes);
    };
    const bool is_read = read_index(0, header_.slots, [&](std::uint64_t first, auto piece) {
        for (std::uint64_t i = 0; i < piece.size() / entry_bytes; ++i)
            look(first + i, piece.subspan(i * entry_bytes, entry_bytes));
        return true;
    });
    if (!is_read) return -EIO;
    contents.bad_entries = bad.size();
    for (const std::uint64_t slot : bad)
        if (const int error = blot_out(slot)) return error;
    return checksum_index(contents) ? 0 : -EIO;
}

bool Segment::checksum_index(Contents& contents) const {
    return read_index(0, contents.used_slots, [&](std::uint64_t, auto piece) {
        contents.checksum = index_checksum(header_, contents.checksum, piece);
        return true;
    });
}

int Segment::blot_out(std::uint64_t slot) const {
    constexpr std::array<std::byte, entry_bytes> blank{};
    return all_or_error(files_.write(buffered_.get(), blank.data(), blank.size(), entry_offset(slot)),
                        blank.size());
}

// A segment that was sealed early has most of its index unused. On file systems without holes it keeps that
// space.
void Segment::free_unused_slots(std::uint64_t used_slots) const {
    const std::uint64_t begin = align_up(entry_offset(used_slots), segment_page),
                        end = header_.data_begin() / segment_page * segment_page;
    if (begin < end) files_.punch(buffered_.get(), begin, end - begin);
}

// Order of writes: the entries reach the disk before the footer, which has their checksum, and the footer
// before the name.
Segment::Sealing Segment::finish(const Contents& contents) {
    if (const int error = lost_by(files_.sync_data(buffered_.get()))) return {Outcome::lost, error};
    Page page;
    encode_footer(header_, {contents.used_slots, contents.data_end, contents.checksum}, page);
    const std::uint64_t at = footer_offset(contents.data_end);
    if (const int error =
            all_or_error(files_.write(buffered_.get(), page.data(), page.size(), at), page.size()))
        return {Outcome::kept, error};
    if (const int error = files_.truncate(buffered_.get(), at + segment_page)) return {Outcome::kept, error};
    free_unused_slots(contents.used_slots);
    if (const int error = lost_by(files_.sync_data(buffered_.get()))) return {Outcome::lost, error};
    const std::string sealed_path = path_of(folder_, {header_.identity, SegmentStage::sealed});
    if (const int error = files_.rename(path(), sealed_path)) return {Outcome::kept, error};
    stage_ = SegmentStage::sealed;
    if (const int error = lost_by(files_.sync_folder(folder_))) return {Outcome::lost, error};
    settle_steadily();
    return {Outcome::sealed};
}

}  // namespace hocket::cache
