#include "dsl/base/quantities.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "dsl/graph/topology.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;

namespace {

// "2: why; what is right", with the index at which it goes wrong.
template <typename Read>
std::string quantity_refusal(Read read, const std::string& text) {
    try {
        read(text);
    } catch (const dsl::QuantityError& error) {
        CHECK(error.at <= text.size());
        return fmt::format("{}: {}; {}", error.at, error.what(), error.hint);
    }
    return "";
}

std::string topology_error(const std::string& text) {
    return test::error_of([&] { dsl::grid_topology(text); });
}

}  // namespace

TEST_CASE("rates are bits or bytes a second, in powers of 1000") {
    CHECK(dsl::parse_rate("8b/s") == 1);
    CHECK(dsl::parse_rate("10Gb/s") == 1.25e9);
    CHECK(dsl::parse_rate("1.5GB/s") == 1.5e9);
    CHECK(dsl::parse_rate("3kB/s") == 3000);
    CHECK(dsl::parse_rate("3KB/s") == 3000);
    CHECK(dsl::parse_rate("2TB/s") == 2e12);
    CHECK(dsl::parse_rate("1e3MB/s") == 1e9);
    const auto wrong = [](const std::string& text) { return quantity_refusal(dsl::parse_rate, text); };
    CHECK_THAT(wrong(""), Contains("0: the rate is missing"));
    CHECK_THAT(wrong("fast"), Contains("0: a rate begins with a number: 'fast'"));
    CHECK_THAT(wrong("infGb/s"), Contains("0: "));
    CHECK_THAT(wrong("nanb/s"), Contains("0: a rate begins with a number"));
    CHECK_THAT(wrong("1e400Gb/s"), Contains("out of range"));
    CHECK_THAT(wrong("1e308GB/s"), Contains("finite"));
    CHECK_THAT(wrong("0Gb/s"), Contains("0: a rate must be more than 0"));
    CHECK_THAT(wrong("-1Gb/s"), Contains("0: a rate must be more than 0"));
    CHECK_THAT(wrong("10"), Contains("2: the rate 10 has no unit; a rate is like 10Gb/s"));
    CHECK_THAT(wrong("10GB"), Contains("2: a rate has no unit 'GB'"));
    CHECK_THAT(wrong("10PB/s"), Contains("2: a rate has no unit 'PB/s'"));
    // In the wrong case: bits and bytes differ in nothing else.
    CHECK_THAT(wrong("100gb/s"), Contains("3: a rate has no unit 'gb/s'; write 100Gb/s for bits, or "
                                          "100GB/s for bytes"));
    CHECK_THAT(wrong("1mB/S"), Contains("write 1Mb/s for bits, or 1MB/s for bytes"));
}

TEST_CASE("times have a unit from nanoseconds to seconds") {
    CHECK(dsl::parse_time("300ns") == Approx(3e-7));
    CHECK(dsl::parse_time("5us") == Approx(5e-6));
    CHECK(dsl::parse_time("1.5ms") == Approx(1.5e-3));
    CHECK(dsl::parse_time("2s") == 2);
    CHECK(dsl::parse_time("0us") == 0);
    const auto wrong = [](const std::string& text) { return quantity_refusal(dsl::parse_time, text); };
    CHECK_THAT(wrong("5"), Contains("1: the time 5 has no unit"));
    CHECK_THAT(wrong("5min"), Contains("1: a time has no unit 'min'"));
    CHECK_THAT(wrong("-5us"), Contains("0: a time must be 0 or more"));
    CHECK_THAT(wrong("long"), Contains("0: a time begins with a number"));
    CHECK_THAT(wrong("1e999s"), Contains("out of range"));
}

TEST_CASE("sizes are whole numbers of bytes, with units") {
    CHECK(dsl::parse_size("0") == 0);
    CHECK(dsl::parse_size("7") == 7);
    CHECK(dsl::parse_size("7B") == 7);
    CHECK(dsl::parse_size("256K") == 256 << 10);
    CHECK(dsl::parse_size("256k") == 256 << 10);
    CHECK(dsl::parse_size("256KiB") == 256 << 10);
    CHECK(dsl::parse_size("1.5M") == 3 << 19);
    CHECK(dsl::parse_size("1.5g") == 3ull << 29);
    CHECK(dsl::parse_size("500MB") == 500'000'000);
    CHECK(dsl::parse_size("500 MB") == 500'000'000);
    CHECK(dsl::parse_size("2TiB") == 2ull << 40);
    CHECK(dsl::parse_size("1e6") == 1'000'000);
    CHECK(dsl::parse_size("4E") == 1ull << 62);
    CHECK(dsl::parse_size("4611686018427387903") == 4611686018427387903);  // no double has it
    const auto wrong = [](const std::string& text) { return quantity_refusal(dsl::parse_size, text); };
    CHECK_THAT(wrong(""), Contains("0: the size is missing"));
    CHECK_THAT(wrong("K"), Contains("0: a size begins with a number: 'K'"));
    CHECK_THAT(wrong("-64M"), Contains("0: a size must be 0 or more: '-64M'"));
    CHECK_THAT(wrong("64Q"), Contains("2: a size has no unit 'Q'"));
    CHECK_THAT(wrong("4MiBs"), Contains("1: a size has no unit 'MiBs'"));
    CHECK_THAT(wrong("1.3K"), Contains("0: a size is a whole number of bytes, and '1.3K' makes 1331.2"));
    CHECK_THAT(wrong("5E"), Contains("at most 2^62"));
    CHECK_THAT(wrong("1e300"), Contains("at most 2^62"));
    CHECK_THAT(wrong("nan"), Contains("begins with a number"));
    CHECK_THAT(wrong("1\n2"), !Contains("\x1b"));
}

TEST_CASE("quantities are written for people") {
    constexpr double KiB = 1024;
    CHECK(dsl::text_of_size(8) == "8 B");
    CHECK(dsl::text_of_size(65536) == "64 KiB");
    CHECK(dsl::text_of_size(KiB * KiB / 3) == "341.3 KiB");
    CHECK(dsl::text_of_size(3 * KiB * KiB * KiB) == "3 GiB");
    CHECK(dsl::text_of_time(0) == "0 us");
    CHECK(dsl::text_of_time(1.26e-6) == "1.26 us");
    CHECK(dsl::text_of_time(1.23456e-3) == "1.235 ms");
    CHECK(dsl::text_of_time(75.5) == "75.5 s");
}

TEST_CASE("a short topology that is wrong is shown with the place, and what is right") {
    const auto check = [](const std::string& text, int column, const std::string& why) {
        INFO(text);
        CHECK_THAT(topology_error(text), Catch::StartsWith(fmt::format("<topology>:1:{}: error: ", column)) &&
                                             Contains(why) && Contains("hint: "));
    };
    check("4mx8q", 5, "'q' is no kind of level");
    check("4x", 3, "the number of ranks is missing here");
    check("4xx2", 3, "the number of ranks is missing here");
    check("4mx8h@100gb/s", 10, "write 100Gb/s for bits, or 100GB/s for bytes");
    check("4mx8h@100", 10, "the rate 100 has no unit");
    check("4mx8h@", 7, "the rate is missing");
    check("4mx8h@-1Gb/s", 7, "more than 0");
    check("4mx8h@0.1B/s", 7, "at least 1B/s");
    check("4mx8h,5us", 6, "only a level of hosts with a rate takes a latency");
    check("4mx8h@100Gb/s,5", 16, "the time 5 has no unit");
    check("4mx8h@100Gb/s,", 15, "the time is missing");
    check("4m@10Gb/s", 3, "only a level of hosts takes a rate");
    check("2h/2", 3, "only a level in memory takes a number of cores");
    check("4m/", 4, "the number of cores is missing here");
    check("4m/0", 4, "1 to 1048576 cores");
    check("0x2", 1, "1 to 1048576 ranks");
    check("2x99999999999999999999", 3, "1 to 1048576 ranks");
    check("2 m", 2, "' m' is no kind of level");
}

TEST_CASE("any text is a quantity or a short topology, or gets an error") {
    const std::string characters = "0123456789..eE+-kKMGTbBi/sunhmx@, \xff%";
    std::mt19937 random(7);
    const auto below = [&](std::size_t most) { return random() % most; };
    std::size_t right[4] = {};
    const std::vector<std::string> texts = {"10Gb/s", "1.5MB/s", "5us",         "300ns",          "64K",
                                            "1.5MiB", "500 MB",  "4mx8h@1Gb/s", "4m/2x2h@10GB/s", "2x3"};
    for (int trial = 0; trial < test::in_long_form(40000, 15000); ++trial) {
        std::string text = texts[below(texts.size())];
        for (std::size_t change = below(3); change > 0; --change) {
            const std::size_t at = below(text.size() + 1);
            if (below(2) == 0)
                text.insert(at, 1, characters[below(characters.size())]);
            else
                text.erase(at, 1 + below(2));
        }
        INFO(text);
        const auto count = [&](std::size_t kind, auto read) {
            try {
                const bool is_right = read();  // outside of REQUIRE, which would catch what it throws
                REQUIRE(is_right);
                ++right[kind];
            } catch (const dsl::QuantityError& error) {
                REQUIRE(error.at <= text.size());
            } catch (const dsl::DiagnosticError&) {
            }
        };
        count(0, [&] { return std::isfinite(dsl::parse_rate(text)) && dsl::parse_rate(text) > 0; });
        count(1, [&] { return std::isfinite(dsl::parse_time(text)) && dsl::parse_time(text) >= 0; });
        count(2, [&] { return dsl::parse_size(text) <= 1ull << 62; });
        count(3, [&] {
            const dsl::Topology topology = dsl::grid_topology(text);
            if (topology.levels.empty()) return text.empty() || text[0] < '0' || text[0] > '9';
            return topology.ranks() >= 1 && topology.ranks() <= dsl::most_ranks && topology.name == text &&
                   dsl::grid_topology(text).levels.size() == topology.levels.size();
        });
    }
    for (const std::size_t count : right) CHECK(count > test::in_long_form(1000u, 400u));
}
