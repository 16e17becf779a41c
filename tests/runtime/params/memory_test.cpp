// Memory that a process of the parameter service shares with others of its host.
#include "runtime/params/links/memory.hpp"

#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "runtime/params/links/copy.hpp"
#include "runtime/transport/net/frame.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;

namespace {

constexpr std::uint64_t mebibyte = 1 << 20, bytes = 40 * mebibyte;  // which lie in an extent of 64 MiB

#ifdef __SANITIZE_ADDRESS__
constexpr bool address_space_is_the_sanitizers = true;
#else
constexpr bool address_space_is_the_sanitizers = false;
#endif

void leave_addresses(std::uint64_t left) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit most{pages * 4096 + left, pages * 4096 + left};
    expect(setrlimit(RLIMIT_AS, &most) == 0, "to be allowed to lower a limit");
}

}  // namespace

TEST_CASE("what another process shows is found where it lies, and read without addresses for it") {
    const auto memory = Memory::make();
    const Memory::Lease lease(*memory);
    const Block block = memory->allocate(bytes);
    for (std::uint64_t at = 0; at < bytes; at += sizeof at) std::memcpy(block.get() + at, &at, sizeof at);
    const MemoryName name = memory->name();
    const std::uint64_t offset = memory->offset_of(block.get()), place = lease.place(),
                        number = lease.number();
    Processes processes;
    for (const bool is_limited : {false, true})
        processes.start([=]() -> std::string {
            if (is_limited && address_space_is_the_sanitizers) return "skipped";
            const auto others = OthersMemory::open(name, place, number);
            expect(others && others->is_lent(), "to be opened");
            std::vector<std::byte> got(mebibyte);
            if (is_limited) leave_addresses(20 * mebibyte);
            const std::byte* const found = others->at(offset, bytes);
            expect((found == nullptr) == is_limited, "to be found where there are addresses for it");
            for (const std::uint64_t begin : {std::uint64_t{0}, 33 * mebibyte + 4096, bytes - mebibyte}) {
                others->read(got.data(), offset + begin, mebibyte);
                for (std::uint64_t at = 0; at < mebibyte; at += sizeof at) {
                    const std::uint64_t expected = begin + at;
                    expect(std::memcmp(&got[at], &expected, sizeof expected) == 0, "what was written");
                    expect(!found || std::memcmp(found + begin + at, &expected, sizeof expected) == 0,
                           "what was written, in its place");
                }
            }
            for (const std::uint64_t wrong : {name.bytes, std::uint64_t{UINT64_MAX}, 64 * mebibyte - 1}) try {
                    others->at(wrong, 2);
                    return "nobody noticed";
                } catch (const transport::ProtocolError&) {
                }
            return "";
        });
    const auto outcomes = processes.wait();
    CHECK(outcomes[0].text == "");
    CHECK(outcomes[1].text == (address_space_is_the_sanitizers ? "skipped" : ""));
}

TEST_CASE("a copy of any size and alignment has the source's bytes, and touches nothing else") {
    std::mt19937 random(20261128);
    std::vector<std::byte> from(20000), to;
    for (std::byte& byte : from) byte = static_cast<std::byte>(random());
    for (int i = 0; i < 2000; ++i) {
        const std::size_t bytes = random() % (i % 2 ? 100 : 9000), source = random() % 5000,
                          place = random() % 5000;
        to.assign(15000, std::byte{1});
        std::vector<std::byte> expected = to;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(place));
        copy_bytes(to.data() + place, from.data() + source, bytes);
        REQUIRE(to == expected);
    }
}
