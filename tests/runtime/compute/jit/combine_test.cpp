// The plain C++ kernels against values worked out by hand: they are the oracle of all other tests.
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/compute/kernels/cpu/hand_over.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "tests/support/test.hpp"

using namespace hocket;

namespace {

// The elements of a row, and the result in the type of the calculation.
template <DataType type>
auto combine_one(ReduceOp op, const std::vector<typename ElementOf<type>::Worked>& values,
                 std::uint32_t divisor = 1) {
    using Stored = typename ElementOf<type>::Stored;
    std::vector<Stored> elements;
    for (const auto value : values) elements.push_back(static_cast<Stored>(value));
    std::vector<const std::byte*> operands;
    for (const Stored& element : elements) operands.push_back(reinterpret_cast<const std::byte*>(&element));
    Stored result{};
    std::byte* const destination = reinterpret_cast<std::byte*>(&result);
    kernels::combine(type, op, {&destination, 1}, operands, 1, divisor);
    return static_cast<typename ElementOf<type>::Worked>(result);
}

constexpr DataType float32 = DataType::float32, float64 = DataType::float64, int32 = DataType::int32,
                   int64 = DataType::int64;

std::uint32_t bits(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

}  // namespace

// Each operator's result for a few small numbers that every type has, where the operator exists.
TEST_CASE("combining plain numbers gives what each operator promises") {
    const std::map<ReduceOp, int> right = {
        {ReduceOp::sum, 10},     {ReduceOp::max, 5},      {ReduceOp::min, 2},
        {ReduceOp::product, 30}, {ReduceOp::band, 0},     {ReduceOp::bor, 7},
        {ReduceOp::bxor, 4},     {ReduceOp::average, 10}, {ReduceOp::premul_sum, 10}};
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops)
            if (supports(op, type))
                with_type(type, [&]<DataType row>(TypeConstant<row>) {
                    INFO(name_of(op) << " of " << name_of(row));
                    using Worked = typename ElementOf<row>::Worked;
                    CHECK(combine_one<row>(op, {5, 2, 3}) == static_cast<Worked>(right.at(op)));
                    CHECK(combine_one<row>(op, {5}) == 5);
                });
    CHECK(combine_one<int32>(ReduceOp::min, {1, 7, -30, -10}) == -30);
    CHECK(combine_one<int64>(ReduceOp::max, {-40, -7, -30, -10}) == -7);
}

TEST_CASE("a combined result is divided last, integers towards 0") {
    CHECK(combine_one<float32>(ReduceOp::average, {1.f, 2.f, 4.f}, 3) == 7.f / 3.f);
    CHECK(combine_one<float64>(ReduceOp::average, {1., 0.}, 7) == 1. / 7.);
    CHECK(combine_one<int32>(ReduceOp::average, {-7, -1}, 3) == -2);
    CHECK(combine_one<DataType::uint64>(ReduceOp::average, {~0ull, 0}, 2) == ~0ull / 2);
    // By a number that the type cannot represent.
    CHECK(combine_one<DataType::int8>(ReduceOp::average, {-100, -28}, 300) == 0);
    CHECK(combine_one<DataType::int8>(ReduceOp::average, {-100, -28}, 128) == -1);
    CHECK(combine_one<DataType::uint8>(ReduceOp::average, {200, 55}, 256) == 0);
    // 16 bits are rounded once, after the division: 2049 is not one of them, 683 is.
    CHECK(combine_one<DataType::float16>(ReduceOp::average, {2048.f, 1.f}, 3) == 683.f);
}

TEST_CASE("sums run from left to right") {
    CHECK(combine_one<float32>(ReduceOp::sum, {1e8f, 1.f, -1e8f}) == 0.f);
    CHECK(combine_one<float32>(ReduceOp::sum, {1e8f, -1e8f, 1.f}) == 1.f);
    CHECK(combine_one<float64>(ReduceOp::sum, {1e17, 1., -1e17}) == 0.);
}

TEST_CASE("integer sums and products wrap around") {
    using Int = std::numeric_limits<std::int32_t>;
    using Long = std::numeric_limits<std::int64_t>;
    CHECK(combine_one<int32>(ReduceOp::sum, {Int::max(), 1}) == Int::min());
    CHECK(combine_one<int32>(ReduceOp::sum, {Int::min(), Int::min(), 3}) == 3);
    CHECK(combine_one<int64>(ReduceOp::sum, {Long::min(), -1}) == Long::max());
    CHECK(combine_one<int32>(ReduceOp::product, {65'537, 65'537, -1}) == -131'073);
    CHECK(combine_one<int64>(ReduceOp::product, {Long::max(), 2}) == -2);
    CHECK(combine_one<int64>(ReduceOp::max, {Long::min(), -1, Long::max()}) == Long::max());
    CHECK(combine_one<DataType::int8>(ReduceOp::sum, {127, 2}) == -127);
    CHECK(combine_one<DataType::int8>(ReduceOp::product, {-128, -1}) == -128);
    CHECK(combine_one<DataType::int16>(ReduceOp::product, {-32768, -32768, 5}) == 0);
    CHECK(combine_one<DataType::uint16>(ReduceOp::product, {65535, 65535}) == 1);
    CHECK(combine_one<DataType::uint8>(ReduceOp::sum, {200, 100}) == 44);
}

TEST_CASE("operators of bits combine each bit alone") {
    CHECK(combine_one<int32>(ReduceOp::band, {-1, 0x7ff0, 0x0ff8}) == 0x0ff0);
    CHECK(combine_one<int64>(ReduceOp::bor, {1ll << 62, 5, 2}) == (1ll << 62 | 7));
    CHECK(combine_one<DataType::uint8>(ReduceOp::bxor, {0xff, 0x0f, 0x3c}) == 0xcc);
}

TEST_CASE("the upper half of unsigned integers is large") {
    CHECK(combine_one<DataType::uint8>(ReduceOp::max, {1, 255, 127}) == 255);
    CHECK(combine_one<DataType::uint16>(ReduceOp::min, {65535, 32768, 40000}) == 32768);
    CHECK(combine_one<DataType::uint32>(ReduceOp::max, {1, 0xffffffff}) == 0xffffffff);
    CHECK(combine_one<DataType::uint64>(ReduceOp::min, {~0ull, 7, 1ull << 63}) == 7);
    CHECK(combine_one<DataType::int8>(ReduceOp::max, {-1, 1, -128}) == 1);
}

TEST_CASE("of bools max is or, min is and, exclusive or is one or the other") {
    for (const std::uint8_t a : {0, 1})
        for (const std::uint8_t b : {0, 1}) {
            CHECK(combine_one<DataType::boolean>(ReduceOp::max, {a, b}) == (a | b));
            CHECK(combine_one<DataType::boolean>(ReduceOp::bor, {a, b}) == (a | b));
            CHECK(combine_one<DataType::boolean>(ReduceOp::min, {a, b}) == (a & b));
            CHECK(combine_one<DataType::boolean>(ReduceOp::band, {a, b}) == (a & b));
            CHECK(combine_one<DataType::boolean>(ReduceOp::bxor, {a, b}) == (a ^ b));
        }
}

TEST_CASE("max and min keep the first NaN and the later zero, and know infinities") {
    const float first = std::bit_cast<float>(0x7fc00123u), second = std::bit_cast<float>(0xffc00456u);
    const float infinity = std::numeric_limits<float>::infinity();
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
        CHECK(bits(combine_one<float32>(op, {1.f, first, infinity})) == bits(first));
        CHECK(bits(combine_one<float32>(op, {first, 1.f, -infinity})) == bits(first));
        CHECK(bits(combine_one<float32>(op, {1.f, 2.f, second, first})) == bits(second));
        CHECK(bits(combine_one<float32>(op, {0.f, -0.f})) == bits(-0.f));
        CHECK(bits(combine_one<float32>(op, {-0.f, 0.f})) == bits(0.f));
    }
    CHECK(combine_one<float32>(ReduceOp::max, {-infinity, infinity, 3.f}) == infinity);
    CHECK(combine_one<float32>(ReduceOp::min, {-infinity, infinity, 3.f}) == -infinity);
}

namespace {

using Arrays = std::vector<std::vector<std::int32_t>>;

// Three arrays of count + 1 elements, from 0, from 1000 and from 2000 on.
Arrays three_arrays(std::size_t count) {
    Arrays arrays(3, std::vector<std::int32_t>(count + 1));
    for (std::size_t k = 0; k < 3; ++k) std::iota(arrays[k].begin(), arrays[k].end(), 1000 * int(k));
    return arrays;
}

std::vector<std::byte*> pointers(Arrays& arrays, const std::vector<std::size_t>& which) {
    std::vector<std::byte*> pointers;
    for (const std::size_t k : which) pointers.push_back(reinterpret_cast<std::byte*>(arrays[k].data()));
    return pointers;
}

const std::vector<std::vector<std::size_t>> choices{{0}, {1}, {2}, {0, 1}, {2, 0}, {0, 1, 2}};

}  // namespace

TEST_CASE("a combine's destinations may be any operands, and nothing else is written") {
    for (const std::size_t count : {0u, 1u, 511u, 512u, 513u, 2000u}) {
        for (const auto& targets : choices) {
            Arrays arrays = three_arrays(count), expected = arrays;
            for (const std::size_t target : targets)
                for (std::size_t i = 0; i < count; ++i) expected[target][i] = 3 * int(i) + 3000;
            const auto all = pointers(arrays, {0, 1, 2});
            kernels::combine(DataType::int32, ReduceOp::sum, pointers(arrays, targets),
                             std::vector<const std::byte*>(all.begin(), all.end()), count);
            CHECK(arrays == expected);
        }
    }
}

TEST_CASE("a copy's destination may be the source, and nothing else is written") {
    for (const std::size_t count : {0u, 1u, 8191u, 8192u, 8193u, 40'000u}) {
        for (const auto& targets : choices) {
            Arrays arrays = three_arrays(count), expected = arrays;
            for (const std::size_t target : targets)
                std::copy_n(arrays[1].begin(), count, expected[target].begin());
            kernels::copy(pointers(arrays, targets), pointers(arrays, {1})[0], 4 * count);
            CHECK(arrays == expected);
        }
    }
}

TEST_CASE("what is handed over arrives whole, and nothing beside it") {
    for (const std::size_t bytes : {0, 1, 7, 63, 64, 1023, 1024, 1025, 4096, 100003})
        for (const std::size_t shift : {0, 1, 13, 26, 39}) {
            const kernels::Path path = shift % 2 == 0 ? kernels::Path::memory : kernels::Path::cache;
            std::vector<std::byte> from(bytes + 64), to(bytes + 64, std::byte{0xee});
            for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
            kernels::hand_over(to.data() + shift, from.data() + 3, bytes, path);
            INFO(bytes << " bytes at " << shift << (path == kernels::Path::memory ? " past the caches" : ""));
            CHECK(std::equal(from.begin() + 3, from.begin() + 3 + static_cast<std::ptrdiff_t>(bytes),
                             to.begin() + static_cast<std::ptrdiff_t>(shift)));
            CHECK(std::all_of(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(shift),
                              [](std::byte b) { return b == std::byte{0xee}; }));
            CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(shift + bytes), to.end(),
                              [](std::byte b) { return b == std::byte{0xee}; }));
        }
}
