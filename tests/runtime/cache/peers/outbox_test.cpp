// Messages that are taken back while they are being sent, over plain and over encrypted connections.
#include "runtime/cache/peers/outbox.hpp"

#include <sys/socket.h>

#include <random>
#include <set>

#include "runtime/cache/peers/stream.hpp"
#include "tests/runtime/cache/peers/message_bytes.hpp"
#include "tests/runtime/transport/net/sealed_pair.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket::cache;
using hocket::test::message_byte;
using hocket::test::SealedPair;
using hocket::test::ways_to_send;

namespace {

struct Arrivals final : PeerStream::Owner {
    SampleRoom begins(const PeerHeader& header) override {
        block.assign(header.bytes, std::byte{0});
        return {block.data(), false};
    }
    void ends(const PeerHeader& header, bool is_intact) override {
        CHECK((ids.empty() || header.id > *ids.rbegin()));
        ids.insert(header.id);
        if (!is_intact) return;
        intact.insert(header.id);
        for (std::size_t i = 0; i < block.size(); ++i)
            if (block[i] != message_byte(header.id, i)) FAIL("byte " << i << " of message " << header.id);
    }
    void broke(const std::string& why) override { FAIL(why); }
    std::vector<std::byte> block;
    std::set<std::uint64_t> ids, intact;
};

}  // namespace

TEST_CASE("messages that are not taken back arrive whole, whichever others are, and when") {
    const auto cipher = GENERATE(from_range(ways_to_send()));
    CAPTURE(hocket::transport::name_of(cipher));
    std::mt19937 random(20261128);
    for (int round = 0; round < hocket::test::in_long_form(60, 24); ++round) {
        const SealedPair pair(cipher);
        const int little = 4096;
        setsockopt(pair.ours.fd(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
        std::vector<std::vector<std::byte>> payloads;
        std::set<std::uint64_t> kept, let_go;
        Arrivals arrivals;
        PeerInbox inbox(arrivals);
        PeerOutbox outbox;
        for (std::uint64_t id = 0; id < 12; ++id) {
            PeerHeader header;
            header.kind = PeerMessage::offer;
            header.id = id;
            header.bytes = random() % (random() % 3 == 0 ? 200'000 : 2'000);
            std::vector<std::byte>& payload = payloads.emplace_back(header.bytes);
            for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = message_byte(id, i);
            outbox.push(header, payload.data(), [&let_go, id] { let_go.insert(id); });
            kept.insert(id);
        }
        const auto receive = [&] {
            if (const auto why = inbox.receive(pair.theirs); !why.empty()) FAIL(why);
        };
        const auto move = [&] {
            if (const auto why = outbox.flush(pair.ours); !why.empty()) FAIL(why);
            if (random() % 2 == 0) receive();
        };
        for (int i = 0; i < 6; ++i) {
            for (std::size_t times = random() % 3; times > 0; --times) move();
            const std::uint64_t id = random() % payloads.size();
            if (let_go.contains(id)) continue;  // sent, or taken back
            outbox.take_back(id);
            kept.erase(id);
            CHECK(let_go.contains(id));
            std::fill(payloads[id].begin(), payloads[id].end(), std::byte{0xee});  // it is the owner's again
        }
        int turns = 0;
        while (!outbox.is_empty() || !std::ranges::includes(arrivals.ids, kept)) {
            move();
            receive();
            if (++turns > 1'000'000) FAIL("messages do not arrive");
        }
        CHECK(std::ranges::includes(arrivals.intact, kept));
        CHECK(let_go.size() == payloads.size());
    }
}

// poll(2) does not know of bytes that are decrypted already.
TEST_CASE("all that has arrived is read, though nothing more comes") {
    const auto cipher = GENERATE(from_range(ways_to_send()));
    CAPTURE(hocket::transport::name_of(cipher));
    std::mt19937 random(5);
    for (int round = 0; round < 100; ++round) {
        SealedPair pair(cipher);
        Arrivals arrivals;
        hocket::transport::SocketLoop loop(hocket::transport::SocketLoop::Way::epoll);
        PeerStream stream(loop, std::move(pair.theirs), arrivals);
        PeerOutbox outbox;
        std::vector<std::byte> payload;
        const std::uint64_t count = 1 + random() % 400;
        for (std::uint64_t id = 0; id < count; ++id) {
            PeerHeader header;
            header.kind = PeerMessage::offer;
            header.id = id;
            header.bytes = random() % 2'000;
            payload.resize(header.bytes);
            for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = message_byte(id, i);
            outbox.push(header, payload.data(), {});
            for (int i = 0; !outbox.is_empty(); ++i) {
                if (const auto why = outbox.flush(pair.ours); !why.empty()) FAIL(why);
                if (i > 100'000) FAIL("nothing can be sent");
                if (!outbox.is_empty()) loop.turn(hocket::transport::Clock::now());
            }
        }
        // Each turn ends at once; there is nothing left to wait for.
        for (int turns = 0; arrivals.intact.size() < count && turns < 1000; ++turns)
            loop.turn(hocket::transport::Clock::now());
        CHECK(arrivals.intact.size() == count);
    }
}
