#include "runtime/params/protocol/wire.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "runtime/transport/net/frame.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace hocket::params;
using Catch::Contains;
using hocket::transport::ProtocolError;

constexpr Bounds bounds{.workers = 5, .chunks = 3};
constexpr Epoch epoch{7, 1 << 20};
constexpr Clock far = (Clock{1} << 40) + 3;

std::vector<Message> examples() {
    return {Announcement{epoch, {{1, 2, far}, {2, the_server, 0}, {9, 1, 4}}, {0, far, 2}},
            Announcement{epoch, {}, {0, 0, 0}, {{3, 0, far}, {8, far, far}}, {{2, far}, {7, 0}}},
            Sum{epoch, 2, far, {1, 3, 9}, nullptr},
            Want{epoch, 1, far},
            Weights{epoch, 0, far, nullptr},
            ParentLost{epoch},
            Covered{epoch, far}};
}

std::string error_of(const Message& message) {
    try {
        decode(encode(message), bounds);
    } catch (const ProtocolError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("messages come out as they went in") {
    for (const Message& message : examples()) {
        const Message read = decode(encode(message), bounds);
        CHECK(read.index() == message.index());
        CHECK(encode(read) == encode(message));
    }
    const auto announced = std::get<Announcement>(decode(encode(examples()[0]), bounds));
    CHECK(announced.epoch == epoch);
    CHECK(announced.members == std::get<Announcement>(examples()[0]).members);
    CHECK(announced.clocks == std::vector<Clock>{0, far, 2});
    CHECK(std::get<Announcement>(decode(encode(examples()[1]), bounds)).departed ==
          std::get<Announcement>(examples()[1]).departed);
    CHECK(std::get<Announcement>(decode(encode(examples()[1]), bounds)).expected ==
          std::get<Announcement>(examples()[1]).expected);
    const auto sum = std::get<Sum>(decode(encode(examples()[2]), bounds));
    CHECK(sum.clock == far);
    CHECK(sum.chunk == 2);
    CHECK(sum.workers == std::vector<Worker>{1, 3, 9});
}

TEST_CASE("messages that do not hold together are refused") {
    CHECK_THAT(error_of(Want{epoch, 3, 0}), Contains("chunk that does not exist"));
    CHECK_THAT(error_of(Sum{epoch, 0, 0, {}, nullptr}), Contains("without workers"));
    CHECK_THAT(error_of(Sum{epoch, 0, 0, {1, 1}, nullptr}), Contains("twice"));
    CHECK_THAT(error_of(Sum{epoch, 0, 0, {3, 2}, nullptr}), Contains("order"));
    CHECK_THAT(error_of(Sum{epoch, 0, 0, {the_server}, nullptr}), Contains("workers"));
    CHECK_THAT(error_of(Sum{epoch, 0, 0, {1, 2, 3, 4, 5, 6}, nullptr}), Contains("more workers"));
    const std::vector<Clock> clocks = {0, 0, 0};
    CHECK_THAT(error_of(Announcement{epoch, {{1, 2, 0}, {2, 1, 0}}, clocks}), Contains("do not form a tree"));
    CHECK_THAT(error_of(Announcement{epoch, {{1, 1, 0}}, clocks}), Contains("do not form a tree"));
    CHECK_THAT(error_of(Announcement{epoch, {{1, 4, 0}}, clocks}), Contains("do not form a tree"));
    CHECK_THAT(error_of(Announcement{epoch, {}, {0, 0}}), Contains("too short"));
    CHECK_THAT(error_of(Announcement{epoch, {}, {0, 0, 0, 0}}), Contains("too short"));
    CHECK_THAT(error_of(Announcement{epoch, {}, clocks, {{4, 0, 1}, {4, 0, 1}}}), Contains("twice"));
    CHECK_THAT(error_of(Announcement{epoch, {}, clocks, {}, {{4, 0}, {2, 0}}}), Contains("ascending"));
    CHECK_THAT(error_of(Want{epoch, 0, UINT64_MAX}), Contains("beyond the largest possible one"));
    CHECK_THROWS_AS(decode("", bounds), ProtocolError);
    CHECK_THROWS_AS(decode(std::string(12, '\0'), bounds), ProtocolError);
}

TEST_CASE("no bytes disturb a node") {
    std::mt19937 random(20261124);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    for (int i = 0; i < 20000; ++i) {
        std::string bytes = encode(examples()[below(examples().size())]);
        for (std::size_t noise = below(4); noise > 0 && !bytes.empty(); --noise)
            bytes[below(bytes.size())] = static_cast<char>(below(3) == 0 ? random() : below(4));
        if (below(4) == 0) bytes.resize(below(bytes.size() + 12));
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) ==
                0);
    }
}
