#include "runtime/cache/segments/segment.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/xxh3.hpp"
#include "runtime/cache/segments/label.hpp"

namespace hocket::cache {
namespace {

static_assert(std::endian::native == std::endian::little, "the images below are little-endian");

constexpr std::uint64_t header_magic = 0x65686361'63746b68;  // "hktcache"
constexpr std::uint64_t footer_magic = 0x646e6563'63746b68;  // "hktccend"
constexpr std::uint64_t least_unit = 8, most_unit = 64 * 1024;
constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 56;

struct HeaderImage {
    std::uint64_t magic, version;
    Digest dataset, identity;
    std::uint64_t file_bytes, slots, unit, label_bytes;
    std::array<char, most_label_bytes> label;
    std::array<std::byte, segment_page - 96 - most_label_bytes> zero;
    std::uint64_t source_samples;  // plus one; 0: unknown
    std::uint64_t checksum;
};
struct EntryImage {
    std::uint64_t key, offset, bytes, payload_checksum, zero, checksum;
};
struct FooterImage {
    std::uint64_t magic, used_slots, data_end, index_checksum;
    std::array<std::byte, segment_page - 40> zero;
    std::uint64_t checksum;
};
static_assert(sizeof(HeaderImage) == segment_page && sizeof(FooterImage) == segment_page);
static_assert(sizeof(EntryImage) == entry_bytes);

std::uint64_t hash(const Digest& identity, std::uint64_t place, const void* data, std::size_t bytes) {
    const std::uint64_t seeds[] = {identity[0], identity[1], place};
    return XXH3_64bits_withSeed(data, bytes, XXH3_64bits(seeds, sizeof seeds));
}

// Returns the checksum of an image without its last member, the checksum.
template <typename Image>
std::uint64_t checksum_of(const Image& image, const Digest& identity, std::uint64_t place) {
    return hash(identity, place, &image, sizeof image - sizeof image.checksum);
}

template <typename Image>
std::optional<Image> image_of(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(Image)) return {};
    Image image;
    std::memcpy(&image, bytes.data(), sizeof image);
    return image;
}

bool is_sane(const SegmentHeader& header) {
    return std::has_single_bit(header.unit) && header.unit >= least_unit && header.unit <= most_unit &&
           header.file_bytes % segment_page == 0 && header.file_bytes <= most_file_bytes &&
           header.slots >= 1 && header.slots <= header.file_bytes / entry_bytes &&
           header.data_begin() + segment_page <= header.file_bytes;
}

// Returns true if [begin, end) lies in the space for payloads, with room for the footer behind it.
bool is_inside(const SegmentHeader& header, std::uint64_t begin, std::uint64_t end) {
    return begin >= header.data_begin() && begin <= end && end <= header.file_bytes - segment_page;
}

}  // namespace

void encode_header(const SegmentHeader& header, Page& page) {
    const std::string label = fit_label(header.label);
    HeaderImage image{header_magic,
                      segment_version,
                      header.dataset,
                      header.identity,
                      header.file_bytes,
                      header.slots,
                      header.unit,
                      label.size(),
                      {},
                      {},
                      header.source_samples ? *header.source_samples + 1 : 0,
                      0};
    label.copy(image.label.data(), label.size());
    image.checksum = checksum_of(image, header.identity, 0);
    std::memcpy(page.data(), &image, sizeof image);
}

std::optional<SegmentHeader> decode_header(std::span<const std::byte> page) {
    const auto image = image_of<HeaderImage>(page);
    if (!image || image->magic != header_magic || image->version != segment_version) return {};
    if (image->checksum != checksum_of(*image, image->identity, 0)) return {};
    if (image->label_bytes > image->label.size()) return {};
    SegmentHeader header{image->dataset, image->identity, image->file_bytes,
                         image->slots,   image->unit,     {image->label.data(), image->label_bytes}};
    if (image->source_samples > 0) header.source_samples = image->source_samples - 1;
    return is_sane(header) ? std::optional(header) : std::nullopt;
}

void encode_entry(const SegmentHeader& header, std::uint64_t slot, const Entry& entry, std::byte* to) {
    EntryImage image{entry.key, entry.offset, entry.bytes, entry.checksum, 0, 0};
    image.checksum = checksum_of(image, header.identity, entry_offset(slot));
    std::memcpy(to, &image, sizeof image);
}

std::optional<Entry> decode_entry(const SegmentHeader& header, std::uint64_t slot,
                                  std::span<const std::byte> bytes) {
    const auto image = image_of<EntryImage>(bytes);
    if (!image || slot >= header.slots) return {};
    if (image->checksum != checksum_of(*image, header.identity, entry_offset(slot))) return {};
    const bool is_placed = image->offset % header.unit == 0 && image->bytes <= header.file_bytes &&
                           image->offset <= header.file_bytes &&
                           is_inside(header, image->offset, image->offset + image->bytes);
    if (!is_placed) return {};
    return Entry{image->key, image->offset, image->bytes, image->payload_checksum};
}

bool is_unused(std::span<const std::byte> slot) {
    return std::all_of(slot.begin(), slot.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

void encode_footer(const SegmentHeader& header, const SegmentFooter& footer, Page& page) {
    FooterImage image{footer_magic, footer.used_slots, footer.data_end, footer.index_checksum, {}, 0};
    image.checksum = checksum_of(image, header.identity, footer_offset(footer.data_end));
    std::memcpy(page.data(), &image, sizeof image);
}

std::optional<SegmentFooter> decode_footer(const SegmentHeader& header, std::span<const std::byte> page) {
    const auto image = image_of<FooterImage>(page);
    if (!image || image->magic != footer_magic || image->data_end > header.file_bytes) return {};
    if (image->checksum != checksum_of(*image, header.identity, footer_offset(image->data_end))) return {};
    if (image->used_slots > header.slots || !is_inside(header, image->data_end, image->data_end)) return {};
    return SegmentFooter{image->used_slots, image->data_end, image->index_checksum};
}

std::uint64_t index_checksum(const SegmentHeader& header, std::uint64_t so_far,
                             std::span<const std::byte> piece) {
    return hash(header.identity, segment_page + so_far, piece.data(), piece.size());
}

std::uint64_t payload_checksum(const Digest& identity, const Entry& place,
                               std::span<const std::byte> payload) {
    const std::uint64_t where[] = {place.key, place.offset, place.bytes};
    return hash(identity, XXH3_64bits(where, sizeof where), payload.data(), payload.size());
}

}  // namespace hocket::cache
