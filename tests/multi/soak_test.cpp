// The soak itself, for a few seconds; and that what it looks for would not pass it unseen.
#include <vector>

#include "tests/multi/process.hpp"
#include "tests/multi/soak/operation.hpp"
#include "tests/multi/soak/usage.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using namespace hocket::soak;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

// A history of so many samples, and what it complains of.
template <class Change>
std::string growth_of(std::size_t samples, Change change) {
    UsageHistory history;
    for (std::size_t i = 0; i < samples; ++i) {
        Usage usage;
        usage.own = usage.heap = usage.shared = usage.resident = 100 * mebibyte;
        usage.descriptors = usage.threads = 10;
        change(usage, static_cast<std::int64_t>(i));
        history.add(usage);
    }
    return history.growth();
}

}  // namespace

TEST_CASE("the soak passes: by memory, and by messages alone") {
    const std::string provider = GENERATE("", "tcp");
    CAPTURE(provider);
    const auto result = hocket::test::run({HOCKET_RUN, "-n", "4", "--timeout", "200", HOCKET_SOAK,
                                           "--seconds", "3", "--most", "16K", "--seed", "7"},
                                          210s, {{"HOCKET_PROVIDER", provider}});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    for (const char* counted :
         {" barriers", " communicators", " plans made", " messages sent", "at the end:"})
        CHECK_THAT(result.out, Contains(counted));
    for (const auto& collective : all_collectives())
        CHECK_THAT(result.out, Contains(" " + collective.name() + "s"));
}

TEST_CASE("a leak is growth, a peak is not") {
    CHECK(growth_of(40, [](Usage&, std::int64_t) {}).empty());
    CHECK_THAT(growth_of(40, [](Usage& usage, std::int64_t i) { usage.heap += i * 20'000; }),
               Contains("heap grew from"));
    CHECK_THAT(growth_of(40, [](Usage& usage, std::int64_t i) { usage.own += i * mebibyte; }),
               Contains("own memory grew"));
    CHECK_THAT(growth_of(40, [](Usage& usage, std::int64_t i) { usage.shared += i * mebibyte / 4; }),
               Contains("shared memory grew"));
    CHECK_THAT(growth_of(40, [](Usage& usage, std::int64_t i) { usage.descriptors += i / 20; }),
               Contains("descriptors grew from 10 (the lowest of samples 11 to 20 of 40) to 11"));
    CHECK_THAT(growth_of(40, [](Usage& usage, std::int64_t i) { usage.threads += i / 20; }),
               Contains("threads grew"));
    // The warm-up, single peaks, and what was only touched.
    CHECK(growth_of(40, [](Usage& usage, std::int64_t i) {
              usage.heap -= i < 10 ? 50 * mebibyte : 0;
          }).empty());
    CHECK(growth_of(40, [](Usage& usage, std::int64_t i) {
              usage.own += i % 3 == 0 ? 0 : i * mebibyte;
          }).empty());
    CHECK(growth_of(40, [](Usage& usage, std::int64_t i) { usage.resident += i * mebibyte; }).empty());
    // Too short to tell.
    CHECK(growth_of(15, [](Usage& usage, std::int64_t i) { usage.heap += i * mebibyte; }).empty());
}

TEST_CASE("a wrong element, a write outside, and a changed input are faults") {
    const bool in_place = GENERATE(false, true);
    CAPTURE(in_place);
    Operation operation;
    operation.layout = hocket::bench::layout_for(HKT_REDUCE_SCATTER, HKT_INT32, HKT_SUM, 0, 0, 1, 40);
    std::vector<unsigned char> from(Placed::room(40)), to(Placed::room(40));
    Chance chance{1};
    const Placed placed(operation, from.data(), to.data(), in_place, chance);
    REQUIRE(operation.layout.count == 10);
    auto* recv = static_cast<std::int32_t*>(placed.recv());
    auto* send = static_cast<std::int32_t*>(const_cast<void*>(placed.send()));
    if (!in_place) {
        CHECK_THAT(placed.fault(), Contains("10 of 10 elements are wrong; the first is element 0: "));
        std::copy(send, send + 10, recv);  // in a world of one the sum is the input
    }
    CHECK(placed.fault().empty());
    SECTION("an element") {
        recv[3] ^= 1;
        CHECK_THAT(placed.fault(), Contains("1 of 10 elements are wrong; the first is element 3: "));
    }
    SECTION("before") {
        reinterpret_cast<unsigned char*>(recv)[-1] = 0;
        CHECK(placed.fault() == "byte 0 before the recv buffer was overwritten");
    }
    SECTION("behind") {
        reinterpret_cast<unsigned char*>(recv + 10)[5] = 0;
        CHECK(placed.fault() == "byte 5 behind the recv buffer was overwritten");
    }
    SECTION("the input") {
        if (in_place) return;  // where it is the output
        send[2] ^= 1;
        CHECK(placed.fault() == "1 elements of what was sent were overwritten");
    }
}

TEST_CASE("a rank that gets no result must find its buffers as they were") {
    const bool in_place = GENERATE(false, true);
    CAPTURE(in_place);
    Operation operation;
    operation.layout = hocket::bench::layout_for(HKT_GATHER, HKT_INT32, HKT_SUM, 0, 1, 2, 80);
    std::vector<unsigned char> from(Placed::room(80)), to(Placed::room(80));
    unsigned char* recv = nullptr;
    for (std::uint64_t seed = 0; recv == nullptr; ++seed) {  // at times it is
        Chance chance{seed};
        const Placed placed(operation, from.data(), to.data(), in_place, chance);
        recv = static_cast<unsigned char*>(placed.recv());
        if (recv == nullptr) continue;
        CHECK(placed.fault().empty());
        recv[3] ^= 1;
        CHECK(placed.fault() == "the recv buffer was overwritten beside the result");
        recv[3] ^= 1;
        *static_cast<unsigned char*>(const_cast<void*>(placed.send())) ^= 1;
        CHECK(placed.fault() == "1 elements of what was sent were overwritten");
    }
}
