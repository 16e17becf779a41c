// Values in narrower formats, compared with a plain calculation.
#include "runtime/compute/kernels/cpu/packing.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/packed.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using dsl::WireFormat;

namespace {

std::vector<WireFormat> formats() {
    std::vector<WireFormat> all;
    for (std::size_t kind = 0; kind < std::size(dsl::wire_format_rows); ++kind)
        for (const std::uint32_t block : {8u, 24u, 256u, WireFormat::most_block}) {
            all.push_back({static_cast<WireFormat::Kind>(kind), block});
            if (!all.back().has_scales()) {
                all.back().block = WireFormat::usual_block;
                break;
            }
        }
    return all;
}

// Floats of all kinds: of one size, of all sizes, ties between codes, zeros, and now and then a NaN or an
// infinity.
std::vector<float> values(std::mt19937& random, std::size_t count) {
    const int kind = static_cast<int>(random() % 6);
    std::vector<float> all(count);
    for (float& value : all) {
        const std::uint32_t bits = random();
        switch (kind) {
            case 0:
                value = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f;
                break;
            case 1:
                value = std::bit_cast<float>(bits);
                if (!std::isfinite(value)) value = 1;
                break;
            case 2:  // halves of codes of int8
                value = static_cast<float>(static_cast<int>(bits % 255) - 127) / 2;
                break;
            case 3:
                value = bits % 50 == 0 ? static_cast<float>(static_cast<std::int32_t>(bits)) : 0.0f;
                break;
            case 4:
                value = std::bit_cast<float>((bits & 0x80ffffff) | (20u + bits % 16) << 23);  // about 2^-100
                break;
            default:
                value =
                    std::exp(static_cast<float>(bits % 1000) / 50 - 10) * (bits & 0x80000000 ? -1.0f : 1.0f);
        }
    }
    if (count > 0 && random() % 8 == 0)
        all[random() % count] = random() % 3 == 0   ? std::numeric_limits<float>::infinity()
                                : random() % 2 == 0 ? -std::numeric_limits<float>::quiet_NaN()
                                                    : -std::numeric_limits<float>::max();
    return all;
}

bool is_same(float a, float b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

std::vector<std::byte> packed(const WireFormat& format, const std::vector<float>& from) {
    std::vector<std::byte> bytes(format.bytes(from.size()) + 4, std::byte{0x5a});
    kernels::pack(format, from.data(), from.size(), bytes.data());
    for (std::size_t i = bytes.size() - 4; i < bytes.size(); ++i) REQUIRE(bytes[i] == std::byte{0x5a});
    return bytes;
}

}  // namespace

TEST_CASE("packed values are those of a plain calculation, in every format") {
    std::mt19937 random(11);
    for (const WireFormat& format : formats())
        for (int round = 0; round < 60; ++round) {
            const std::size_t count = round < 20 ? static_cast<std::size_t>(round) : random() % 9000;
            const std::vector<float> from = values(random, count), wanted = travelled(format, from);
            const std::vector<std::byte> bytes = packed(format, from);
            const kernels::PackedPiece piece{format, bytes.data(), count};
            std::vector<float> sum(count, 0.0f);
            kernels::add_unpacked(piece, 0, count, sum.data());
            std::vector<std::byte> portable(bytes.size());
            kernels::pack_portably(format, from.data(), count, portable.data());
            std::vector<float> portable_sum(count, 0.0f);
            kernels::add_unpacked_portably({format, portable.data(), count}, 0, count, portable_sum.data());
            for (std::size_t i = 0; i < count; ++i)
                if (!is_same(sum[i], wanted[i]) || !is_same(portable_sum[i], sum[i]))
                    FAIL(format.text() << " of " << count << ", round " << round << ": element " << i << ", "
                                       << from[i] << ", became " << sum[i] << ", and portably "
                                       << portable_sum[i] << ", not " << wanted[i]);
        }
}

TEST_CASE("any part of packed values can be added, or taken away") {
    std::mt19937 random(12);
    for (const WireFormat& format : formats())
        for (int round = 0; round < 30; ++round) {
            const std::size_t count = 1 + random() % 5000;
            const std::vector<float> from = values(random, count), base = values(random, count),
                                     wanted = travelled(format, from);
            const std::vector<std::byte> bytes = packed(format, from);
            const std::size_t first = random() % count, n = random() % (count - first + 1);
            std::vector<float> more = base, less = base;
            kernels::add_unpacked({format, bytes.data(), count}, first, n, more.data() + first);
            kernels::subtract_unpacked({format, bytes.data(), count}, first, n, less.data() + first);
            for (std::size_t i = 0; i < count; ++i) {
                const bool is_in = i >= first && i < first + n;
                const float left = base[i] - wanted[i];
                if (!is_same(more[i], is_in ? base[i] + wanted[i] : base[i]) ||
                    !is_same(less[i], !is_in                ? base[i]
                                      : std::isfinite(left) ? left
                                                            : 0.0f))
                    FAIL(format.text()
                         << " of " << count << ", from " << first << ", " << n << ": element " << i << ", "
                         << base[i] << ", became " << more[i] << " and " << less[i]);
            }
        }
}

TEST_CASE("formats have the sizes that their bits say") {
    CHECK(WireFormat{WireFormat::Kind::int8, 256}.bytes(1024) == 1024 + 4 * 4);
    CHECK(WireFormat{WireFormat::Kind::int4, 256}.bytes(1024) == 512 + 4 * 4);
    CHECK(WireFormat{WireFormat::Kind::sign, 256}.bytes(1024) == 128 + 4 * 4);
    CHECK(WireFormat{WireFormat::Kind::sign, 256}.bytes(257) == 36 + 4 + 4);
    CHECK(WireFormat{WireFormat::Kind::bfloat16, 256}.bytes(1024) == 2048);
    CHECK(WireFormat{WireFormat::Kind::float16, 256}.bytes(0) == 0);
    CHECK(WireFormat{WireFormat::Kind::int8, 256}.bytes_of_element() == 260.0 / 256);
    CHECK(WireFormat{WireFormat::Kind::int8, 64}.text() == "int8(64)");
    CHECK(WireFormat{WireFormat::Kind::bfloat16}.text() == "bfloat16");
}
