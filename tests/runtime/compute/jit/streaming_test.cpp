// When kernels stream: sizes, alignment, operations in place.
#include "runtime/compute/jit/streaming.hpp"

#include <vector>

#include "tests/support/test.hpp"

using namespace hocket;
using jit::least_streamed_bytes, jit::no_streaming;

namespace {

// Nothing is read or written: addresses are all that counts.
std::uint64_t head(const std::vector<std::uintptr_t>& destinations,
                   const std::vector<std::uintptr_t>& operands, std::uint64_t begin, std::uint64_t bytes,
                   std::uint64_t element_size = 4) {
    std::vector<std::byte*> areas;
    std::vector<std::uint32_t> ids;
    for (const auto* list : {&destinations, &operands})
        for (const std::uintptr_t address : *list) {
            ids.push_back(areas.size());
            areas.push_back(reinterpret_cast<std::byte*>(address));
        }
    return jit::streaming_head(areas.data(), ids.data(), operands.size(), destinations.size(), begin, bytes,
                               element_size);
}

}  // namespace

TEST_CASE("streaming begins where the destinations' cache lines do") {
    const std::uint64_t large = least_streamed_bytes(2, 1);
    CHECK(head({0x1000}, {0x2000, 0x3000}, 0, large) == 0);
    CHECK(head({0x1004}, {0x2000, 0x3008}, 0, large) == 60);
    CHECK(head({0x1004}, {0x2000, 0x3008}, 56, large) == 4);
    CHECK(head({0x1008, 0x9048}, {0x2000, 0x3008}, 0, 2 * large, 8) == 56);
}

TEST_CASE("small operations do not stream") {
    for (const std::uint64_t operands : {1, 2, 5, 40})
        for (const std::uint64_t destinations : {1, 2, 5, 40}) {
            std::vector<std::uintptr_t> to, from;
            for (std::uintptr_t k = 0; k < destinations; ++k) to.push_back(0x1000 * (k + 1));
            for (std::uintptr_t k = 0; k < operands; ++k) from.push_back(0x100000 * (k + 1));
            const std::uint64_t least = least_streamed_bytes(operands, destinations);
            CHECK(head(to, from, 0, least) == 0);
            CHECK(head(to, from, 0, least - 1) == no_streaming);
        }
}

TEST_CASE("destinations that cannot all be aligned do not stream") {
    constexpr std::uint64_t large = 1 << 30;
    CHECK(head({0x1000, 0x2020}, {0x3000, 0x4000}, 0, large) == no_streaming);
    CHECK(head({0x1004}, {0x3000, 0x4000}, 0, large, 8) == no_streaming);
    CHECK(head({0x1002}, {0x3000, 0x4000}, 0, large, 4) == no_streaming);
}

TEST_CASE("what was just read is not streamed over") {
    constexpr std::uint64_t large = 1 << 30;
    CHECK(head({0x1000}, {0x2000, 0x1000}, 0, large) == no_streaming);
    CHECK(head({0x3000, 0x2000}, {0x2000, 0x1000}, 0, large) == no_streaming);
    CHECK(head({0x1000}, {0x1000}, 0, large) == no_streaming);
    CHECK(head({0x3000, 0x1000}, {0x1000}, 0, large) == 0);  // a copy leaves its source alone
}
