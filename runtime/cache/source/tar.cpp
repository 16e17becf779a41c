#include "runtime/cache/source/tar.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

// Places and lengths of fields, as POSIX has them.
constexpr std::size_t name_at = 0, name_bytes = 100, size_at = 124, number_bytes = 12, checksum_at = 148,
                      checksum_bytes = 8, type_at = 156, magic_at = 257, prefix_at = 345, prefix_bytes = 155;

[[noreturn]] void refuse_tar(const char* why) {
    throw Error(Status::io, why);
}

std::string_view up_to_zero(std::string_view field) {
    return field.substr(0, field.find('\0'));
}

std::uint64_t octal_number(std::string_view field) {
    field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
    field = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
    const bool is_number = error == std::errc() && end == field.data() + field.size();
    if (!field.empty() && !is_number)
        refuse_tar("a number in a tar header is not octal: is it a tar file, and not compressed?");
    return value;
}

// GNU's tar writes sizes that need more than eleven octal digits as binary numbers, with the highest bit set.
std::uint64_t member_size(std::string_view field) {
    if ((field[0] & 0x80) == 0) return octal_number(field);
    std::uint64_t value = field[0] & 0x7f;
    for (const char c : field.substr(1)) {
        if (value >> 55 != 0) refuse_tar("a tar header has a size beyond all files");
        value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
}

std::uint64_t header_checksum(std::string_view block) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
        const bool is_its_own = i >= checksum_at && i < checksum_at + checksum_bytes;
        sum += is_its_own ? ' ' : static_cast<unsigned char>(block[i]);
    }
    return sum;
}

}  // namespace

std::optional<TarHeader> parse_tar_header(std::span<const std::byte, tar_block> bytes) {
    const std::string_view block(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (block.find_first_not_of('\0') == std::string_view::npos) return std::nullopt;
    if (octal_number(block.substr(checksum_at, checksum_bytes)) != header_checksum(block))
        refuse_tar("a tar header has a wrong checksum: is it a tar file, and not compressed?");
    TarHeader header;
    header.type = block[type_at];
    header.bytes = member_size(block.substr(size_at, number_bytes));
    if (header.bytes >> 62 != 0) refuse_tar("a tar header has a size beyond all files");
    if (header.type == 'S') refuse_tar("a member is a sparse file of GNU's tar; pack it without --sparse");
    header.name = up_to_zero(block.substr(name_at, name_bytes));
    // GNU's own format ("ustar  ") has other things in the place of the prefix.
    const bool has_prefix = block.substr(magic_at, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = up_to_zero(block.substr(prefix_at, prefix_bytes));
    if (has_prefix && !prefix.empty()) header.name = std::string(prefix) + "/" + header.name;
    return header;
}

PaxValues parse_pax(std::string_view text) {
    constexpr const char* problem = "a pax header is damaged";
    PaxValues values;
    while (!text.empty() && text[0] != '\0') {
        std::size_t length = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
        const auto digits = static_cast<std::size_t>(end - text.data());
        if (error != std::errc() || length > text.size() || length < digits + 3 || text[digits] != ' ' ||
            text[length - 1] != '\n')
            refuse_tar(problem);
        const std::string_view record = text.substr(digits + 1, length - digits - 2);
        text.remove_prefix(length);
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos) refuse_tar(problem);
        const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
        if (key == "path") values.path = value;
        if (key.starts_with("GNU.sparse.")) refuse_tar("a member is a sparse file; pack it without --sparse");
        if (key != "size") continue;
        std::uint64_t size = 0;
        const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
        if (wrong != std::errc() || last != value.data() + value.size() || size >> 62 != 0)
            refuse_tar(problem);
        values.size = size;
    }
    return values;
}

}  // namespace hocket::cache
