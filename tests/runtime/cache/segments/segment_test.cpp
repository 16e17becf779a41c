#include "runtime/cache/segments/segment.hpp"

#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "runtime/cache/segments/folder.hpp"
#include "runtime/cache/segments/label.hpp"
#include "runtime/cache/segments/space.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

const SegmentHeader header{{1, 2}, {3, 4}, 1 << 20, 64, 8, "words v2 from /data/words"};
const Entry entry{7, 8192, 100, 0x1234};

std::array<std::byte, entry_bytes> encoded(std::uint64_t slot, const SegmentHeader& of = header) {
    std::array<std::byte, entry_bytes> bytes;
    encode_entry(of, slot, entry, bytes.data());
    return bytes;
}

void flip(std::span<std::byte> bytes, std::size_t bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

// Flips each bit in turn, and counts how many of the results are still taken for the real thing.
template <typename Decode>
int survivors(std::span<std::byte> bytes, Decode decode) {
    int count = 0;
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        flip(bytes, bit);
        count += decode().has_value();
        flip(bytes, bit);
    }
    return count;
}

}  // namespace

TEST_CASE("headers, entries and footers come back as they were written") {
    Page page;
    encode_header(header, page);
    const auto read = decode_header(page);
    REQUIRE(read);
    CHECK(read->dataset == header.dataset);
    CHECK(read->identity == header.identity);
    CHECK(read->file_bytes == header.file_bytes);
    CHECK(read->slots == header.slots);
    CHECK(read->unit == header.unit);
    CHECK(read->label == header.label);
    CHECK_FALSE(read->source_samples);
    for (const std::uint64_t samples : {0, 1, 1000}) {
        SegmentHeader of_source = header;
        of_source.source_samples = samples;
        encode_header(of_source, page);
        CHECK(decode_header(page)->source_samples == samples);
    }
    CHECK(read->data_begin() == 8192);

    const auto entry_read = decode_entry(header, 5, encoded(5));
    REQUIRE(entry_read);
    CHECK(entry_read->key == entry.key);
    CHECK(entry_read->offset == entry.offset);
    CHECK(entry_read->bytes == entry.bytes);
    CHECK(entry_read->checksum == entry.checksum);

    encode_footer(header, {9, 20000, 0x77}, page);
    const auto footer = decode_footer(header, page);
    REQUIRE(footer);
    CHECK(footer->used_slots == 9);
    CHECK(footer->data_end == 20000);
    CHECK(footer->index_checksum == 0x77);
}

TEST_CASE("no flipped bit of a header, an entry or a footer is overlooked") {
    Page page;
    encode_header(header, page);
    CHECK(survivors(page, [&] { return decode_header(page); }) == 0);
    auto bytes = encoded(3);
    CHECK(survivors(bytes, [&] { return decode_entry(header, 3, bytes); }) == 0);
    encode_footer(header, {9, 20000, 0x77}, page);
    CHECK(survivors(page, [&] { return decode_footer(header, page); }) == 0);
}

TEST_CASE("no flipped bit of a payload or of the index is overlooked") {
    Bytes payload = payload_of(7, 100);
    const std::uint64_t right = payload_checksum(header.identity, entry, payload);
    const std::uint64_t right_index = index_checksum(header, 0, payload);
    for (std::size_t bit = 0; bit < payload.size() * 8; ++bit) {
        flip(payload, bit);
        REQUIRE(payload_checksum(header.identity, entry, payload) != right);
        REQUIRE(index_checksum(header, 0, payload) != right_index);
        flip(payload, bit);
    }
}

TEST_CASE("what lies at another place, or in another file, is not taken for an entry") {
    CHECK_FALSE(decode_entry(header, 6, encoded(5)));
    SegmentHeader other = header;
    other.identity[1] ^= 1;
    CHECK_FALSE(decode_entry(other, 5, encoded(5)));
    const Bytes payload = payload_of(7, 100);
    const std::uint64_t right = payload_checksum(header.identity, entry, payload);
    CHECK(payload_checksum(other.identity, entry, payload) != right);
    CHECK(payload_checksum(header.identity, {8, 8192, 100, 0}, payload) != right);
    CHECK(payload_checksum(header.identity, {7, 8200, 100, 0}, payload) != right);
}

TEST_CASE("entries and headers that make no sense are refused, whatever their checksums say") {
    const auto is_entry = [](const SegmentHeader& of, const Entry& wrong) {
        std::array<std::byte, entry_bytes> bytes;
        encode_entry(of, 1, wrong, bytes.data());
        return decode_entry(of, 1, bytes).has_value();
    };
    CHECK(is_entry(header, {1, 8192, (1 << 20) - 8192 - 4096, 0}));
    CHECK_FALSE(is_entry(header, {1, 8192, (1 << 20) - 8192 - 4095, 0}));
    CHECK_FALSE(is_entry(header, {1, 4096, 8, 0}));
    CHECK_FALSE(is_entry(header, {1, 8193, 8, 0}));
    CHECK_FALSE(is_entry(header, {1, UINT64_MAX - 7, 16, 0}));
    CHECK_FALSE(is_entry(header, {1, 8192, UINT64_MAX, 0}));

    const auto is_header = [](SegmentHeader wrong, auto change) {
        change(wrong);
        Page page;
        encode_header(wrong, page);
        return decode_header(page).has_value();
    };
    CHECK(is_header(header, [](SegmentHeader&) {}));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.unit = 4; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.unit = 24; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.unit = 128 * 1024; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.slots = 0; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.slots = UINT64_MAX / 48; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.file_bytes = 8192; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.file_bytes += 1; }));
    CHECK_FALSE(is_header(header, [](SegmentHeader& h) { h.file_bytes = UINT64_MAX - 4095; }));
}

TEST_CASE("a label that goes beyond its room is refused, whatever its checksum says") {
    constexpr std::size_t label_bytes_offset = 72;
    Page page;
    encode_header(header, page);
    const auto label_of = [&](std::uint64_t bytes) -> std::optional<std::string> {
        std::memcpy(&page[label_bytes_offset], &bytes, sizeof bytes);
        renew_checksum(page);
        const auto read = decode_header(page);
        return read ? std::optional(read->label) : std::nullopt;
    };
    CHECK(label_of(0) == "");
    CHECK(label_of(5) == "words");
    CHECK(label_of(most_label_bytes) ==
          header.label + std::string(most_label_bytes - header.label.size(), '\0'));
    for (const std::uint64_t wrong : {most_label_bytes + 1, segment_page, UINT64_MAX})
        CHECK_FALSE(label_of(wrong));
}

TEST_CASE("a label is cut off at a character's boundary, and can be shown on a terminal") {
    const std::string full(most_label_bytes, 'x');
    CHECK(fit_label("") == "");
    CHECK(fit_label(full) == full);
    CHECK(fit_label(full + "x") == full);
    for (const std::string character : {"\u00e9", "\u20ac", "\U0001f600"})
        for (std::size_t room = 0; room <= 4; ++room) {
            const std::string before = full.substr(room);
            CHECK(fit_label(before + character) == before + (character.size() <= room ? character : ""));
            CHECK(fit_label(before + character + "xxxx").size() <= most_label_bytes);
        }
    CHECK(fit_label("a\tb\n\x1b[31m\x7f\u0085\u00a0") == "a?b??[31m??\u00a0");
    CHECK(fit_label(std::string_view("a\0b", 3)) == "a?b");
    // Cut off, overlong, a surrogate, too large, and bytes that begin no character.
    CHECK(fit_label("\xe2\x82") == "??");
    CHECK(fit_label("\xc3(") == "?(");
    CHECK(fit_label("\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf") == "?? ??? ????");
    CHECK(fit_label("\xed\xa0\x80 \xf4\x90\x80\x80 \x80\xff\xfe") == "??? ???? ???");
    CHECK(fit_label("\U0010ffff\ud7ff") == "\U0010ffff\ud7ff");

    SegmentHeader labelled = header;
    labelled.label = std::string(most_label_bytes - 1, 'x') + "\u00e9\n";
    Page page;
    encode_header(labelled, page);
    CHECK(decode_header(page)->label == std::string(most_label_bytes - 1, 'x'));
}

TEST_CASE("parsers read no more than they are given") {
    Page page;
    encode_header(header, page);
    for (std::size_t size = 0; size < page.size(); ++size) {
        const std::vector<std::byte> cut(page.begin(), page.begin() + static_cast<std::ptrdiff_t>(size));
        REQUIRE_FALSE(decode_header(cut));
        REQUIRE_FALSE(decode_footer(header, cut));
        if (size < entry_bytes) REQUIRE_FALSE(decode_entry(header, 0, cut));
    }
}

TEST_CASE("a planned segment holds its payload, and stays below what it may take up") {
    for (const std::uint64_t payload : {0, 1, 4095, 4096, 100'000, 5 << 20, 3 << 28})
        for (const std::uint64_t limit : {0, 1 << 16, 1 << 20, 1 << 28})
            for (const std::uint64_t at_most : {std::uint64_t{30'000}, std::uint64_t{1} << 17,
                                                std::uint64_t{7'654'321}, std::uint64_t{1} << 40}) {
                const auto size = plan_segment(payload, limit, at_most);
                if (!size) {
                    CHECK(16384 + align_up(payload, 4096) + extent_slack(16384 + align_up(payload, 4096)) >
                          at_most);
                    continue;
                }
                const SegmentHeader planned{{}, {}, size->file_bytes, size->slots, 8, ""};
                CHECK(size->slots >= 64);
                CHECK(size->file_bytes % 4096 == 0);
                CHECK(planned.data_begin() + align_up(payload, 4096) + 4096 <= size->file_bytes);
                CHECK(size->file_bytes + extent_slack(size->file_bytes) <= at_most);
            }
    CHECK(plan_segment(10'000, std::uint64_t{1} << 40, UINT64_MAX)->file_bytes == 1 << 30);
    CHECK(plan_segment(10'000, 0, UINT64_MAX)->file_bytes == 256 << 20);
    CHECK(plan_segment(10'000, 1 << 20, UINT64_MAX)->file_bytes == 1 << 20);
    CHECK_FALSE(plan_segment(UINT64_MAX, 0, UINT64_MAX));
}

TEST_CASE("names of files say what they are") {
    const SegmentName name{{0x1234, 0xabcdef}, SegmentStage::open};
    CHECK(file_name(name) == "00000000000012340000000000abcdef.open");
    const auto parsed = parse_file_name(file_name(name));
    REQUIRE(parsed);
    CHECK(parsed->identity == name.identity);
    CHECK(parsed->stage == name.stage);
    for (const char* wrong : {"", "lock", "flights", "00000000000012340000000000abcdef", ".seg",
                              "00000000000012340000000000abcdeF.seg", "00000000000012340000000000abcdef.segs",
                              "0000000000001234000000000 abcdef.seg", "00000000000012340000000000abcdef.s"})
        CHECK_FALSE(parse_file_name(wrong));
}

TEST_CASE("bytes of any kind are parsed, and folders with them opened") {
    std::mt19937_64 random(20240611);
    for (int i = 0; i < 150'000; ++i) {
        Bytes input(1 + random() % 40);
        for (std::byte& byte : input) byte = static_cast<std::byte>(random());
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()) ==
                0);
    }
}
