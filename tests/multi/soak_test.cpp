// The soak itself, for a few seconds; and checks that it would find the defects that it looks for.
#include <algorithm>
#include <vector>

#include "tests/multi/process.hpp"
#include "tests/multi/soak/operation.hpp"
#include "tests/multi/soak/usage.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using namespace hocket::soak;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

// The complaint about a history of this many samples.
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

TEST_CASE("the soak passes by memory, and by messages alone") {
    const auto [provider, encryption] =
        GENERATE(table<const char*, const char*>({{"", "off"}, {"tcp", "off"}, {"tcp", "on"}}));
    // Before it begins, each rank compiles all that will run.
    if (std::string(provider) == "tcp" && std::string(encryption) == "off" && !hocket::test::is_long_form())
        return;
    CAPTURE(provider, encryption);
    const auto result =
        hocket::test::run({HOCKET_RUN, "-n", "4", "--timeout", "200", HOCKET_SOAK, "--seconds", "3", "--most",
                           "16K", "--seed", "7"},
                          210s, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_ENCRYPTION", encryption}});
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
    // The warm-up, single peaks, and memory that was only touched.
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

TEST_CASE("pieces of any kind make up what is divided, some of them empty") {
    bool some_empty = false, some_has_all = false;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Chance chance{seed};
        const auto pieces = any_pieces(chance, 1000, 3);
        REQUIRE(pieces.size() == 3);
        CHECK(pieces[0] + pieces[1] + pieces[2] == 1000);
        some_empty |= std::ranges::count(pieces, 0u) > 0;
        some_has_all |= std::ranges::count(pieces, 1000u) > 0;
    }
    CHECK(some_empty);
    CHECK(some_has_all);
}

TEST_CASE("an uneven piece in the wrong place is a fault") {
    const auto collective = GENERATE(HKT_ALL_GATHER, HKT_GATHER, HKT_ALL_TO_ALL);
    const bool in_place = GENERATE(false, true);
    CAPTURE(hkt_collective_name(collective), in_place);
    // An operation on rank 1 of 3, the root.
    Operation operation;
    operation.layout = hocket::bench::layout_for({collective, hocket::bench::Subject::Kind::with_counts},
                                                 HKT_INT32, HKT_SUM, 1, 1, 3, 40);
    operation.layout.divide({2, 0, 8});
    std::vector<unsigned char> from(Placed::room(40)), to(Placed::room(40));
    Chance chance{1};
    const Placed placed(operation, from.data(), to.data(), in_place, chance);
    auto* recv = static_cast<std::int32_t*>(placed.recv());
    std::size_t filled = 0;
    for (const auto& [rank, begin, count] : operation.layout.origins()) {
        hocket::bench::Layout theirs = operation.layout;
        theirs.rank = rank;
        theirs.divide({2, 0, 8});
        std::vector<std::int32_t> input(theirs.send_count());
        hocket::bench::fill_input(theirs, operation.values, input.data());
        std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(begin), count, recv + filled);
        filled += count;
    }
    REQUIRE(filled == 10);
    CHECK(placed.fault().empty());
    std::rotate(recv, recv + 9, recv + 10);  // as if each piece began one element later
    CHECK_THAT(placed.fault(), Contains("of 10 elements are wrong; the first is element 0: "));
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
