// The kernel that multiplies a rank's input, against products worked out one by one.
#include "runtime/compute/kernels/cpu/multiply.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/test.hpp"

using namespace hocket;

namespace {

// In the type of the calculation.
template <DataType type>
auto times(typename ElementOf<type>::Worked value, double factor) {
    auto element = static_cast<typename ElementOf<type>::Stored>(value);
    auto* bytes = reinterpret_cast<std::byte*>(&element);
    kernels::multiply(type, bytes, bytes, 1, factor);
    return static_cast<typename ElementOf<type>::Worked>(element);
}

template <DataType type>
void check_many(double factor) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    // Less than a block, a block, and more.
    for (const std::size_t count : {0, 1, 7, 1023, 8192, 8193, 20'001}) {
        std::vector<Stored> from(count), to(count + 1, Stored(Worked(77)));
        for (std::size_t i = 0; i < count; ++i) from[i] = Stored(static_cast<Worked>(i % 251));
        const std::vector<Stored> before = from;
        kernels::multiply(type, reinterpret_cast<std::byte*>(to.data()),
                          reinterpret_cast<const std::byte*>(from.data()), count, factor);
        CHECK((count == 0 || std::memcmp(from.data(), before.data(), count * sizeof(Stored)) == 0));
        CHECK(static_cast<Worked>(to[count]) == 77);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
            wrong += static_cast<Worked>(to[i]) != times<type>(static_cast<Worked>(i % 251), factor);
        CHECK(wrong == 0);
    }
}

}  // namespace

TEST_CASE("elements of all types are multiplied, as many as one likes") {
    for (const DataType type : all_types)
        with_type(type, [&]<DataType row>(TypeConstant<row>) {
            if constexpr (supports(ReduceOp::premul_sum, row)) {
                INFO(name_of(row));
                using Worked = typename ElementOf<row>::Worked;
                CHECK(times<row>(7, 3) == 21);
                CHECK(times<row>(7, 0) == 0);
                CHECK(times<row>(7, 1) == 7);
                if constexpr (std::is_signed_v<Worked>) CHECK(times<row>(7, -3) == -21);
                check_many<row>(3);
                if constexpr (std::is_floating_point_v<Worked>) check_many<row>(-0.37);
            }
        });
}

TEST_CASE("of products floats are rounded once, and integers wrap around") {
    CHECK(times<DataType::float32>(3.f, 0.1) == 3.f * 0.1f);
    CHECK(times<DataType::float64>(3., 0.1) == 3. * 0.1);
    CHECK(times<DataType::float32>(9.f, 0.1) != static_cast<float>(9. * 0.1));
    // 2049 is not a number of binary16: the factor would be 2048.
    CHECK(times<DataType::float16>(3.f, 2049) == 6148.f);
    CHECK(times<DataType::float16>(0.5f, 100'000) == 49'984.f);  // nor is 100'000
    CHECK(times<DataType::float16>(2.f, 40'000) == std::numeric_limits<float>::infinity());
    CHECK(times<DataType::bfloat16>(3.f, 257) == 772.f);
    CHECK(std::isnan(times<DataType::float32>(0.f, std::numeric_limits<double>::infinity())));
    CHECK(times<DataType::int8>(100, 3) == 44);
    CHECK(times<DataType::int8>(-128, -1) == -128);
    CHECK(times<DataType::uint16>(65535, 65535) == 1);
    CHECK(times<DataType::int32>(65'537, 65'537) == 131'073);
    CHECK(times<DataType::uint64>(3, 0x1p63) == 1ull << 63);
    CHECK(times<DataType::int64>(1, -0x1p63) == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("every number of 16 bits is multiplied by the processor as by integer arithmetic") {
    const auto check = [&]<typename Half>(DataType type, Half) {
        std::vector<Half> all(65536 + 3);  // and some behind the last eight
        for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
        for (const double factor : {1., 0.1, -3., 1e-5, 70'000., 0x1p-14}) {
            INFO(name_of(type) << " by " << factor);
            std::vector<Half> products(all.size());
            kernels::multiply(type, reinterpret_cast<std::byte*>(products.data()),
                              reinterpret_cast<const std::byte*>(all.data()), all.size(), factor);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < all.size(); ++i)
                wrong +=
                    products[i].bits != Half(static_cast<float>(all[i]) * static_cast<float>(factor)).bits;
            CHECK(wrong == 0);
        }
    };
    check(DataType::float16, Float16());
    check(DataType::bfloat16, BFloat16());
}

TEST_CASE("a factor must be a number of what the type is calculated in") {
    using kernels::why_no_factor;
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                     infinity = std::numeric_limits<double>::infinity();
    for (const DataType type : all_types) {
        INFO(name_of(type));
        for (const double whole : {0., 1., 127., -0.}) CHECK_FALSE(why_no_factor(type, whole));
        const bool is_floating = row_of(type).kind == kind::floating;
        for (const double other : {0.5, nan, infinity, -infinity})
            CHECK(why_no_factor(type, other).has_value() != is_floating);
    }
    CHECK_FALSE(why_no_factor(DataType::float64, 1e300));
    for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
        CHECK_FALSE(why_no_factor(type, -1e38));
        CHECK(why_no_factor(type, 1e39) ==
              "is beyond the range in which " + std::string(name_of(type)) + " is calculated");
    }
    CHECK_FALSE(why_no_factor(DataType::int8, -128));
    CHECK(why_no_factor(DataType::int8, 128) ==
          "is not a whole number from -128 to 127, as it must be for int8");
    CHECK(why_no_factor(DataType::int8, -129));
    CHECK(why_no_factor(DataType::uint8, -1));
    CHECK_FALSE(why_no_factor(DataType::uint32, 4294967295.));
    CHECK(why_no_factor(DataType::uint32, 4294967296.));
    CHECK_FALSE(why_no_factor(DataType::int64, -0x1p63));
    CHECK(why_no_factor(DataType::int64, 0x1p63));
    CHECK_FALSE(why_no_factor(DataType::uint64, 0x1p63));
    CHECK(why_no_factor(DataType::uint64, 0x1p64));
}
