#include "runtime/transport/net/transfer.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/transport/net/sealed_pair.hpp"

using namespace hocket::transport;
using hocket::test::SealedPair;
using hocket::test::ways_to_send;

namespace {

std::string random_bytes(std::mt19937& random, std::size_t size) {
    std::string bytes(size, '\0');
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
    return bytes;
}

// Divides memory at random into at most `most` pieces, of which some are empty.
std::vector<iovec> divided(std::mt19937& random, char* data, std::size_t size, std::size_t most) {
    std::vector<iovec> pieces;
    while (pieces.size() + 1 < most && size > 0) {
        const std::size_t part = random() % (size + 1);
        pieces.push_back({data, part});
        data += part;
        size -= part;
    }
    pieces.push_back({data, size});
    return pieces;
}

}  // namespace

TEST_CASE("bytes arrive in order, however both ends divide them") {
    const Cipher cipher = GENERATE(from_range(ways_to_send()));
    CAPTURE(name_of(cipher));
    std::mt19937 random(20261128);
    for (int round = 0; round < 50; ++round) {
        const SealedPair pair(cipher);
        std::string sent = random_bytes(random, 1 + random() % (std::size_t{1} << (random() % 23)));
        std::string received(sent.size(), '\0');
        std::size_t out = 0, in = 0;
        while (in < sent.size()) {
            if (out < sent.size()) {
                std::vector<iovec> pieces =
                    divided(random, sent.data() + out, sent.size() - out, 1 + random() % 9);
                const Transfer transfer = send_some(pair.ours, pieces);
                REQUIRE_FALSE(transfer.has_ended);
                out += transfer.bytes;
            }
            std::vector<iovec> room =
                divided(random, received.data() + in, sent.size() - in, 1 + random() % 9);
            const Transfer transfer = receive_some(pair.theirs, room);
            REQUIRE_FALSE(transfer.has_ended);
            in += transfer.bytes;
        }
        CHECK((received == sent));
        CHECK(pair.ours.bytes_begun() == 0);
        CHECK_FALSE(pair.theirs.has_more());
    }
}

TEST_CASE("a transfer that must wait moves nothing and does not end the connection") {
    const SealedPair pair(GENERATE(from_range(ways_to_send())));
    char room[64];
    const Transfer nothing = receive_some(pair.ours, room);
    CHECK(nothing.bytes == 0);
    CHECK_FALSE(nothing.has_ended);

    const std::string much(1 << 20, 'x');
    for (;;) {
        const Transfer transfer = send_some(pair.ours, much);
        REQUIRE_FALSE(transfer.has_ended);
        if (transfer.bytes == 0) break;
    }
}

TEST_CASE("the end of a connection comes after what was sent, with the kernel's reason") {
    SealedPair pair(GENERATE(from_range(ways_to_send())));
    char room[64];
    SECTION("closed") {
        send_some(pair.theirs, "last words");
        pair.theirs.close();
        const Transfer words = receive_some(pair.ours, room);
        CHECK(std::string(room, words.bytes) == "last words");
        CHECK_FALSE(words.has_ended);
        const Transfer end = receive_some(pair.ours, room);
        CHECK(end.bytes == 0);
        CHECK(end.has_ended);
        CHECK(end.error == 0);
        CHECK(end.why() == "the peer closed the connection");
    }
    SECTION("reset") {
        hocket::test::reset(pair.theirs);
        const Transfer end = receive_some(pair.ours, room);
        CHECK(end.has_ended);
        CHECK(end.error == ECONNRESET);
        CHECK(end.why() == "Connection reset by peer");
        const Transfer sent = send_some(pair.ours, "text");  // no signal
        CHECK(sent.has_ended);
        CHECK(sent.error == EPIPE);
    }
}
