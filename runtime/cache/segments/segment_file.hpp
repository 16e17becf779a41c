// An open segment file: every process reads it, and only its creator writes it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/filling.hpp"
#include "runtime/cache/segments/folder.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// Returns nothing if the header is missing or wrong, or if the file ends before any payload could begin.
std::optional<SegmentHeader> read_header(const Files& files, int fd);
// Returns the alignment, from 512 to 4096, of offset, length and memory for I/O on a descriptor opened with
// O_DIRECT; 0 if direct I/O does not work on this file.
std::uint64_t direct_alignment(int fd);

// Thread-safe, unless a function says otherwise.
class Segment {
  public:
    // fd: for buffered I/O; the segment takes ownership. Owned: fd holds the file's exclusive flock, and is
    // writable.
    Segment(const Files& files, std::string folder, const SegmentHeader& header, Descriptor fd,
            SegmentStage stage, bool is_owned);

    const SegmentHeader& header() const { return header_; }
    bool is_owned() const { return is_owned_; }
    bool is_sealed() const { return stage_ == SegmentStage::sealed; }
    std::string path() const { return path_of(folder_, {header_.identity, stage_}); }
    bool is_gone() const;        // the file was removed
    std::uint64_t size() const;  // the file's present size; 0: unknown
    bool is_direct() const { return direct_.get() >= 0; }
    int payload_fd() const { return is_direct() ? direct_.get() : buffered_.get(); }
    std::uint64_t unit() const { return is_direct() ? header_.unit : 1; }

    // Calls each(first_slot, bytes of up to index_piece slots) for each piece of the index, beginning with
    // that of first_slot, until it returns false or `slots` are done. Returns false if the index cannot be
    // read (any further).
    template <typename Each>
    bool read_index(std::uint64_t first_slot, std::uint64_t slots, Each each) const;
    // Returns nothing if the footer is missing or wrong. Only for sealed segments.
    std::optional<SegmentFooter> read_footer() const;
    std::optional<SegmentHeader> reread_header() const;
    // The segment is not sealed while this lock is held, so that everything read from it is consistent.
    std::unique_lock<std::mutex> steady() const { return std::unique_lock(mutex_); }

    // ---- Somebody else's
    void was_sealed() { stage_ = SegmentStage::sealed; }
    // For a sealed segment whose index has been read: takes the shared lock, which keeps others from evicting
    // it, and closes the descriptor that only the index needs. Returns false if the lock cannot be acquired
    // now.
    bool settle();
    // Returns true if no process is writing it.
    bool is_abandoned() const;

    // ---- One's own
    Filling& filling() { return filling_; }
    int write_entry(std::uint64_t slot, const Entry& entry) const;  // returns 0 or -errno
    // Returns 0 or -errno. On failure the segment is lost: nothing in it can be assumed durable.
    int sync();
    bool is_lost() const { return lost_ != 0; }
    void was_removed() { lost_ = -ENOENT; }  // by another process or a person
    enum class Outcome { sealed, empty, kept, lost };
    struct Sealing {
        Outcome outcome;
        int error = 0;                  // -errno, if the outcome is kept or lost
        std::uint64_t bad_entries = 0;  // failed their checksums and were zeroed
    };
    // Call it when no payloads or entries are written any more.
    Sealing seal();

  private:
    struct Contents {
        std::uint64_t used_slots = 0, data_end = 0, checksum = 0, bad_entries = 0;
    };
    int take_stock(Contents& contents) const;
    int blot_out(std::uint64_t slot) const;
    bool checksum_index(Contents& contents) const;
    void free_unused_slots(std::uint64_t used_slots) const;
    int lost_by(int error);
    Sealing finish(const Contents& contents);
    bool settle_steadily();
    bool read_page(std::uint64_t offset, PageBuffer& page) const;
    int index_fd() const { return buffered_.get() >= 0 ? buffered_.get() : direct_.get(); }

    const Files& files_;
    const std::string folder_;
    const SegmentHeader header_;
    const bool is_owned_;
    std::atomic<SegmentStage> stage_;
    std::atomic<int> lost_{0};  // -errno
    mutable std::mutex mutex_;  // for sealing, syncing and settling
    Descriptor buffered_;       // none if it is settled and has direct_
    Descriptor direct_;
    Filling filling_;
};

template <typename Each>
bool Segment::read_index(std::uint64_t first_slot, std::uint64_t slots, Each each) const {
    PageBuffer buffer(index_piece * entry_bytes);
    for (std::uint64_t first = first_slot - first_slot % index_piece; first < slots; first += index_piece) {
        const std::uint64_t bytes = std::min(index_piece, slots - first) * entry_bytes;
        const std::int64_t got =
            files_.read(index_fd(), buffer.data(), align_up(bytes, segment_page), entry_offset(first));
        if (got < static_cast<std::int64_t>(bytes)) return false;
        if (!each(first, std::span<const std::byte>(buffer.data(), bytes))) break;
    }
    return true;
}

}  // namespace hocket::cache
