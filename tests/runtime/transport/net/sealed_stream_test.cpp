// Messages over encrypted connections: the same as over others, however little the kernel takes at once.
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/transport/streams/stream.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/runtime/transport/fabric/segment_lists.hpp"
#include "tests/runtime/transport/net/sealed_pair.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using namespace hocket::transport;

namespace {

struct Sent {
    std::vector<char> from, to;
    Segment out{}, in{};
    Message sends{}, receives{};
    bool is_awaited = false;
};

}  // namespace

TEST_CASE("messages in both directions arrive whole, asked for before or after they came") {
    const Cipher cipher = GENERATE(from_range(ways_to_send()));
    CAPTURE(name_of(cipher));
    std::mt19937 random(20261129);
    for (int round = 0; round < 20; ++round) {
        SealedPair pair(cipher);
        const int little = 4096;
        if (round % 2 == 0)
            for (const Socket* socket : {&pair.ours, &pair.theirs})
                setsockopt(socket->fd(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
        Stream ends[2] = {Stream(std::move(pair.ours)), Stream(std::move(pair.theirs))};
        std::vector<Sent> messages(30);
        std::vector<Completion> done;
        const auto post = [&](std::size_t i, bool receives) {
            Sent& one = messages[i];
            if (receives)
                ends[1 - i % 2].receive(i, {&one.in, 1}, one.receives), one.is_awaited = true;
            else
                ends[i % 2].send(i, 5, {&one.out, 1}, one.sends, done);
        };
        for (std::size_t i = 0; i < messages.size(); ++i) {
            Sent& one = messages[i];
            one.from = pattern(random() % (random() % 4 == 0 ? 300'000 : 500), static_cast<int>(i));
            one.to.assign(one.from.size(), 'x');
            one.out = segment(one.from.data(), one.from.size());
            one.in = segment(one.to.data(), one.to.size());
        }
        for (std::size_t i = 0; i < messages.size(); ++i) {
            const bool early = random() % 2 == 0;
            if (early) post(i, true);
            post(i, false);
            for (Stream& end : ends) end.move(done);
        }
        while (done.size() < 2 * messages.size()) {
            for (std::size_t i = 0; i < messages.size(); ++i)
                if (!messages[i].is_awaited && random() % 8 == 0) post(i, true);
            bool moved = false;
            for (Stream& end : ends) moved |= end.make_way() || end.move(done);
            // As the fabric sleeps. When all are awaited, nothing that is in the process may wait for more.
            pollfd set[] = {ends[0].interest(), ends[1].interest()};
            const bool all_are_awaited =
                std::ranges::all_of(messages, [](const Sent& one) { return one.is_awaited; });
            if (!moved && done.size() < 2 * messages.size() &&
                poll(set, 2, all_are_awaited ? 5000 : 10) == 0 && all_are_awaited)
                FAIL("nothing moves");
        }
        for (const Completion& one : done) CHECK(one.ok);
        for (const Sent& one : messages) CHECK((one.to == one.from));
    }
}

TEST_CASE("a message that is changed on the way fails at its receiver, and then at its sender") {
    const Cipher cipher = GENERATE(from_range(ways_to_send()));
    if (cipher == Cipher::none) return;
    // ours - relay | relay - theirs: the test passes bytes from one pair to the other.
    SealedPair keys(cipher);
    ConnectedPair left, right;
    left.ours.seal(std::make_unique<SealedBytes>(cipher, keys.to_theirs, keys.to_ours));
    right.theirs.seal(std::make_unique<SealedBytes>(cipher, keys.to_ours, keys.to_theirs));
    Stream sender(std::move(left.ours));
    auto receiver = std::make_unique<Stream>(std::move(right.theirs));
    const auto data = pattern(100'000, 3);
    std::vector<char> to(data.size());
    const Segment out = segment(const_cast<char*>(data.data()), data.size()),
                  in = segment(to.data(), to.size());
    Message messages[3];
    std::vector<Completion> sent, received;
    receiver->receive(1, {&in, 1}, messages[0]);
    sender.send(1, 0, {&out, 1}, messages[1], sent);
    std::size_t passed = 0;
    const std::size_t changed_at = 70'000;
    while (received.empty()) {
        sender.move(sent);
        char bytes[10'000];
        const ssize_t n = recv(left.theirs.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) {
            const auto size = static_cast<std::size_t>(n);
            if (changed_at >= passed && changed_at < passed + size) bytes[changed_at - passed] ^= 0x10;
            REQUIRE(send(right.ours.fd(), bytes, size, MSG_NOSIGNAL) == n);
            passed += size;
        }
        receiver->move(received);
    }
    REQUIRE(received.size() == 1);
    CHECK_FALSE(received[0].ok);
    CHECK(received[0].error == damaged_record_text);
    receiver.reset();  // as its communicator does, and so the relay loses its other end
    reset(left.theirs);
    sender.receive(2, {&in, 1}, messages[2]);
    while (sent.empty() || sent.back().ok) sender.move(sent);
    CHECK_FALSE(sent.back().ok);
}
