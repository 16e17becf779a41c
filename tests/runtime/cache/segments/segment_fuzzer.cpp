// The segment's parsers, and whole folders of mutated files, opened as a cache does. Entry of libFuzzer
// (clang++ -fsanitize=fuzzer,address with runtime/cache/segments/*.cpp); the unit tests call it with seeded
// bytes. The first byte chooses; one input in 64 is a folder, one a label.
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "runtime/cache/segments/label.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket::cache;
using namespace hocket::test;

namespace {

const std::vector<std::uint64_t> sizes{100, 0, 3000, 8, 700, 1};
const std::vector<std::uint64_t> large_sizes{4096, 5000, 12345};

struct Originals {
    SmallSegment sealed = make_small_segment(sizes, true), open = make_small_segment(sizes, false),
                 large = make_small_segment(large_sizes, true);
};
const Originals& originals() {
    static const Originals made;
    return made;
}

const SmallSegment& choose(FuzzInput& choices) {
    switch (choices.below(3)) {
        case 0:
            return originals().sealed;
        case 1:
            return originals().open;
        default:
            return originals().large;
    }
}

// In the header, the first slots, the footer, or anywhere.
std::size_t place(FuzzInput& choices, std::size_t size) {
    if (size == 0) return 0;
    switch (choices.below(4)) {
        case 0:
            return choices.below(128) % size;
        case 1:
            return (segment_page + choices.below(8 * entry_bytes)) % size;
        case 2:
            return (size - std::min(size, segment_page) + choices.below(48)) % size;
        default:
            return choices.below(size);
    }
}

void mutate(FuzzInput& choices, Bytes& bytes) {
    const std::size_t at = place(choices, bytes.size());
    switch (choices.below(6)) {
        case 0:
            return bytes.resize(at);
        case 1:
            return bytes.resize(bytes.size() + choices.below(10'000));
        case 2:  // a run of zeros
            for (std::size_t i = at; i < std::min(bytes.size(), at + 60); ++i) bytes[i] = std::byte{0};
            return;
        case 3: {  // a copy from elsewhere
            const std::size_t from = place(choices, bytes.size());
            for (std::size_t i = 0; i < entry_bytes && std::max(at, from) + i < bytes.size(); ++i)
                bytes[at + i] = bytes[from + i];
            return;
        }
        default:
            if (!bytes.empty()) bytes[at] ^= static_cast<std::byte>(1 + choices.byte() % 255);
    }
}

std::span<const std::byte> part(const Bytes& bytes, std::size_t from, std::size_t size) {
    from = std::min(from, bytes.size());
    return std::span(bytes).subspan(from, std::min(size, bytes.size() - from));
}

void parse(FuzzInput& choices) {
    const SmallSegment& original = choose(choices);
    Bytes bytes = original.bytes;
    const bool is_consistent = choices.below(2);  // then the header's contents are checked
    while (choices.any()) mutate(choices, bytes);
    if (is_consistent && bytes.size() >= segment_page) renew_checksum(std::span(bytes).first<segment_page>());
    const SegmentHeader right = *decode_header(original.bytes);
    const SegmentHeader header = decode_header(part(bytes, 0, segment_page)).value_or(right);
    require(header.data_begin() + segment_page <= header.file_bytes);
    require(header.label.size() <= most_label_bytes);
    for (std::uint64_t slot = 0; slot < 8; ++slot) {
        const auto entry = decode_entry(header, slot, part(bytes, entry_offset(slot), entry_bytes));
        require(!entry || (entry->offset >= header.data_begin() && entry->bytes <= header.file_bytes &&
                           entry->offset + entry->bytes <= header.file_bytes - segment_page));
    }
    const std::size_t end = bytes.size() - std::min(bytes.size(), segment_page);
    const auto footer = decode_footer(header, part(bytes, end, segment_page));
    require(!footer || (footer->used_slots <= header.slots && footer->data_end < header.file_bytes));
}

// Adds a label of any bytes, often too long.
void label(FuzzInput& choices) {
    std::string text;
    while (choices.any()) text += static_cast<char>(choices.byte());
    SegmentHeader header = *decode_header(originals().sealed.bytes);
    for (int i = 0; i < 16; ++i) header.label += text;
    Page page;
    encode_header(header, page);
    const auto read = decode_header(page);
    require(read && read->label.size() <= most_label_bytes && fit_label(read->label) == read->label);
    for (const char byte : read->label) require(byte < 0 || byte >= ' ');
}

void check_all(const Files& files, Directory& directory) {
    for (const std::uint64_t key : directory.keys()) {
        const auto payload = get(directory, files, key);
        if (!payload) continue;
        const bool is_small = key < sizes.size() && *payload == payload_of(key, sizes[key]);
        const bool is_large = key < large_sizes.size() && *payload == payload_of(key, large_sizes[key]);
        require(is_small || is_large);
    }
}

void open_folder(FuzzInput& choices) {
    const Files files;
    const TemporaryFolder folder(fast_folder());
    for (const SmallSegment* original : {&originals().sealed, &originals().open, &originals().large}) {
        Bytes bytes = original->bytes;
        for (std::uint64_t count = choices.below(3); count > 0; --count) mutate(choices, bytes);
        write_all(folder.path() + "/" + original->name, bytes);
    }
    for (int round = 0; round < 2; ++round) {
        const bool is_writable = choices.below(3) > 0;
        Directory directory(files, options_for(folder.path(), 256 * 1024, is_writable));
        if (choices.below(2)) directory.verify(nullptr);
        check_all(files, directory);
        put(directory, files, 2, payload_of(2, sizes[2]));
        directory.refresh();
        check_all(files, directory);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzInput choices(data, size);
    switch (choices.byte() % 64) {
        case 0:
            open_folder(choices);
            break;
        case 1:
            label(choices);
            break;
        default:
            parse(choices);
    }
    return 0;
}
