#include "runtime/cache/objects/checksums.hpp"

#include <fmt/format.h>
#include <md5.h>
#include <sha1.h>
#include <sodium.h>

#include <array>
#include <boost/crc.hpp>
#include <cstdint>
#include <string_view>

#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {
namespace {

using Body = std::span<const std::byte>;

std::string as_base64(std::span<const unsigned char> bytes) {
    std::string text(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
    sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), sodium_base64_VARIANT_ORIGINAL);
    text.pop_back();  // the zero behind it
    return text;
}

const unsigned char* plain(Body body) {
    return reinterpret_cast<const unsigned char*>(body.data());
}

// Of `bits` bits, the highest first.
template <typename Sum>
std::string crc(Body body, unsigned bits) {
    Sum sum;
    sum.process_bytes(body.data(), body.size());
    std::array<unsigned char, 8> bytes{};
    for (unsigned i = 0; i < bits / 8; ++i)
        bytes[i] = static_cast<unsigned char>(std::uint64_t{sum.checksum()} >> (bits - 8 - 8 * i));
    return as_base64(std::span(bytes).first(bits / 8));
}

std::string crc32(Body body) {
    return crc<boost::crc_32_type>(body, 32);
}
std::string crc32c(Body body) {
    return crc<boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>>(body, 32);
}
std::string crc64nvme(Body body) {
    constexpr std::uint64_t ones = ~std::uint64_t{0};
    return crc<boost::crc_optimal<64, 0xAD93D23594C93659, ones, ones, true, true>>(body, 64);
}
std::string sha1(Body body) {
    std::array<unsigned char, SHA1_DIGEST_LENGTH> digest{};
    SHA1_CTX context;
    SHA1Init(&context);
    SHA1Update(&context, plain(body), body.size());
    SHA1Final(digest.data(), &context);
    return as_base64(digest);
}
std::string sha256(Body body) {
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(digest.data(), plain(body), body.size());
    return as_base64(digest);
}
std::string md5(Body body) {
    std::array<unsigned char, MD5_DIGEST_LENGTH> digest{};
    MD5_CTX context;
    MD5Init(&context);
    MD5Update(&context, plain(body), body.size());
    MD5Final(digest.data(), &context);
    return as_base64(digest);
}

struct ServerChecksum {
    const char* header;
    std::string (*of)(Body);
};
constexpr ServerChecksum server_checksums[] = {
    {"x-amz-checksum-crc32", crc32},         {"x-amz-checksum-crc32c", crc32c},
    {"x-amz-checksum-crc64nvme", crc64nvme}, {"x-amz-checksum-sha1", sha1},
    {"x-amz-checksum-sha256", sha256},       {"content-md5", md5}};

}  // namespace

std::string checksum_mismatch(const Answer& answer, std::span<const std::byte> body) {
    const bool is_of_parts = answer.header("x-amz-checksum-type") == "COMPOSITE";
    for (const auto& [header, of] : server_checksums) {
        const std::string& wanted = answer.header(header);
        const bool is_composite = wanted.find('-') != std::string::npos ||
                                  (is_of_parts && std::string_view(header).starts_with("x-amz"));
        if (wanted.empty() || is_composite) continue;
        if (const std::string found = of(body); found != wanted)
            return fmt::format("{} is {}, but that of the bytes that came is {}", header,
                               one_line(wanted, 80), found);
    }
    return "";
}

}  // namespace hocket::cache
