// Reads every record and reports the damaged ones.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/segments/descriptor.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t chunk_bytes = 4 << 20;

}  // namespace

class Directory::Verifier {
  public:
    Verifier(Directory& directory, const Progress& progress) : directory_(directory), progress_(progress) {}

    Verification run() {
        for (const std::string& finding : directory_.findings()) found_bad_segment(finding);
        for (const auto& segment : directory_.segments()) check_segment(*segment);
        const std::vector<Record> records = directory_.records_.all();
        for (const Record& record : records) all_ += record.entry.bytes;
        check_records(records);
        return std::move(result_);
    }

  private:
    void check_segment(const Segment& segment) {
        ++result_.segments;
        const auto lock = segment.steady();
        const auto header = segment.reread_header();
        if (!header || header->identity != segment.header().identity)
            found_bad_segment(segment.path() + ": at offset 0: no right header");
        if (segment.is_sealed()) check_index(segment);
    }

    void check_index(const Segment& segment) {
        const auto footer = segment.read_footer();
        const std::uint64_t slots = footer ? footer->used_slots : segment.header().slots;
        const std::uint64_t bad_before = result_.bad_records;
        std::uint64_t checksum = 0;
        const bool is_read = segment.read_index(0, slots, [&](std::uint64_t first, auto piece) {
            checksum = index_checksum(segment.header(), checksum, piece);
            for (std::uint64_t i = 0; i < piece.size() / entry_bytes; ++i)
                check_slot(segment, first + i, piece.subspan(i * entry_bytes, entry_bytes));
            return true;
        });
        if (!footer)
            found_bad_segment(fmt::format("{}: at offset {}: no right footer", segment.path(),
                                          segment.size() - std::min(segment.size(), segment_page)));
        else if (!is_read)
            found_bad_segment(segment.path() + ": at offset 4096: the index cannot be read");
        else if (checksum != footer->index_checksum && result_.bad_records == bad_before)
            found_bad_segment(segment.path() + ": at offset 4096: the index fails its checksum");
    }

    void check_slot(const Segment& segment, std::uint64_t slot, std::span<const std::byte> bytes) {
        if (is_unused(bytes) || decode_entry(segment.header(), slot, bytes)) return;
        found_bad_record(fmt::format("{}: at offset {}: the entry of slot {} fails its checksum",
                                     segment.path(), entry_offset(slot), slot));
    }

    // records: sorted by segment and offset.
    void check_records(std::span<const Record> records) {
        while (!records.empty() && !is_stopped_) {
            const Record& first = records.front();
            std::size_t count = 1;
            while (count < records.size() && records[count].segment == first.segment &&
                   end_of(records[count]) - first.entry.offset <= chunk_bytes)
                ++count;
            check_chunk(records.first(count));
            records = records.subspan(count);
        }
    }

    static std::uint64_t end_of(const Record& record) { return record.entry.offset + record.entry.bytes; }

    void check_chunk(std::span<const Record> records) {
        const Segment& segment = *records.front().segment;
        const std::uint64_t begin = records.front().entry.offset;
        std::uint64_t end = begin;
        for (const Record& record : records) end = std::max(end, end_of(record));
        const std::uint64_t bytes = align_up(end - begin, segment.unit());
        if (bytes > buffer_.size()) buffer_ = PageBuffer(bytes);
        const std::int64_t got = directory_.files_.read(segment.payload_fd(), buffer_.data(), bytes, begin);
        const std::span<const std::byte> chunk(buffer_.data(),
                                               static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
        for (const Record& record : records) check_record(record, chunk, begin);
        is_stopped_ = progress_ && !progress_(result_.bytes, all_);
    }

    void check_record(const Record& record, std::span<const std::byte> chunk, std::uint64_t begin) {
        const Segment& segment = *record.segment;
        const Place place{record.segment, segment.payload_fd(), segment.is_direct(), segment.unit(),
                          record.entry};
        ++result_.records;
        result_.bytes += record.entry.bytes;
        const std::uint64_t from = record.entry.offset - begin;
        const bool is_whole = from + record.entry.bytes <= chunk.size();
        if (is_whole && is_right(place, chunk.subspan(from, record.entry.bytes))) return;
        directory_.forget(place);
        found_bad_record(fmt::format("{}: at offset {}: the {} bytes of key {} {}", segment.path(),
                                     record.entry.offset, record.entry.bytes, record.entry.key,
                                     is_whole ? "fail their checksum" : "cannot be read"));
    }

    void found_bad_segment(const std::string& text) {
        ++result_.bad_segments;
        note(text);
    }
    void found_bad_record(const std::string& text) {
        ++result_.bad_records;
        note(text);
    }
    void note(const std::string& text) {
        if (result_.findings.size() < most_findings) result_.findings.push_back(text);
    }

    Directory& directory_;
    const Progress& progress_;
    std::uint64_t all_ = 0;
    Verification result_;
    PageBuffer buffer_{segment_page};
    bool is_stopped_ = false;
};

Directory::Verification Directory::verify(const Progress& progress) {
    Verification result = Verifier(*this, progress).run();
    give_back();
    return result;
}

}  // namespace hocket::cache
