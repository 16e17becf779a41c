// Encrypted connections: what arrives is what was sent, or the connection ends.
#include "runtime/transport/net/sealing.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "runtime/transport/bootstrap/link.hpp"
#include "runtime/transport/net/socket_loop.hpp"
#include "runtime/transport/net/transfer.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"
#include "tests/runtime/transport/net/sealed_pair.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using Catch::Contains;

namespace {

std::vector<Cipher> ciphers() {
    std::vector<Cipher> all = ways_to_send();
    all.erase(all.begin());
    return all;
}

std::string some_bytes(std::mt19937& random, std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

// The records that texts become, one after the other.
std::vector<std::string> records_of(Cipher cipher, const Key& key, const std::vector<std::string>& texts) {
    RecordCipher sender(cipher, key);
    std::vector<std::string> records;
    for (const std::string& text : texts) {
        std::string record(text.size() + RecordCipher::overhead, '\0');
        sender.seal(reinterpret_cast<const std::byte*>(text.data()), text.size(),
                    reinterpret_cast<std::byte*>(record.data()));
        records.push_back(std::move(record));
    }
    return records;
}

// What a sealed end receives if these bytes reach it; the reason at the end if the connection has ended.
struct Heard {
    std::string text, why;
};
Heard hear(Cipher cipher, const Key& key, std::string_view wire, std::size_t room_size = 100'000) {
    ConnectedPair pair;
    pair.theirs.seal(std::make_unique<SealedBytes>(cipher, random_key(), key));
    Heard heard;
    std::vector<char> room(room_size);
    for (;;) {
        if (!wire.empty()) wire.remove_prefix(send_some(pair.ours, wire).bytes);
        if (wire.empty()) pair.ours.close();
        const Transfer got = receive_some(pair.theirs, std::span(room));
        heard.text.append(room.data(), got.bytes);
        if (got.has_ended) {
            heard.why = got.why();
            return heard;
        }
        pollfd entry{pair.theirs.fd(), POLLIN, 0};
        if (got.bytes < room.size() && wire.empty()) poll(&entry, 1, 100);
    }
}

const std::string all_was_read = "the peer closed the connection";

}  // namespace

TEST_CASE("a record that was changed anywhere ends the connection, and nothing of it is read") {
    const Cipher cipher = GENERATE(from_range(ciphers()));
    std::mt19937 random(20261128);
    const Key key = random_key();
    const std::string first = some_bytes(random, 50), second = some_bytes(random, 300);
    const auto records = records_of(cipher, key, {first, second});
    const std::string wire = records[0] + records[1];
    const Heard right = hear(cipher, key, wire);
    CHECK(right.text == first + second);
    CHECK(right.why == all_was_read);
    for (std::size_t at = 0; at < wire.size(); ++at) {
        std::string changed = wire;
        changed[at] = static_cast<char>(changed[at] ^ 1 << random() % 8);
        const Heard heard = hear(cipher, key, changed, 1 + random() % 400);
        CAPTURE(at);
        CHECK((heard.text == "" || (at >= records[0].size() && first.starts_with(heard.text))));
        // A longer length waits for bytes that never come; the connection's end then ends it.
        CHECK((heard.why == damaged_record_text || heard.why == all_was_read));
        const std::size_t in_record = at < records[0].size() ? at : at - records[0].size();
        CHECK((heard.why == damaged_record_text || in_record < RecordCipher::header_size));
    }
}

TEST_CASE(
    "records that are left out, repeated, moved, of the other direction or of another key are refused") {
    const Cipher cipher = GENERATE(from_range(ciphers()));
    const Key key = random_key(), other = random_key();
    const auto records = records_of(cipher, key, {"one", "two", "six"});
    const auto foreign = records_of(cipher, other, {"one"});
    CHECK(hear(cipher, key, records[0] + records[1] + records[2]).text == "onetwosix");
    const auto refused = [&](const std::string& wire, const std::string& before) {
        const Heard heard = hear(cipher, key, wire, 3);
        CHECK(heard.text == before);
        CHECK(heard.why == damaged_record_text);
    };
    refused(records[1], "");
    refused(records[0] + records[2], "one");
    refused(records[0] + records[0], "one");
    refused(records[0] + records[2] + records[1], "one");
    refused(foreign[0], "");
    refused(records[0] + foreign[0], "one");
    refused(std::string(400, '\0'), "");
    refused(std::string(400, '\xff'), "");
}

TEST_CASE("the end of a connection within a record gives nothing of it") {
    const Cipher cipher = GENERATE(from_range(ciphers()));
    const Key key = random_key();
    const auto records = records_of(cipher, key, {"first", "second"});
    for (std::size_t kept = 0; kept < records[1].size(); ++kept) {
        const Heard heard = hear(cipher, key, records[0] + records[1].substr(0, kept));
        CHECK(heard.text == "first");
        CHECK(heard.why == all_was_read);
    }
}

TEST_CASE("keys are replaced in step on both sides") {
    const Cipher cipher = GENERATE(from_range(ciphers()));
    const Key key = random_key();
    RecordCipher sender(cipher, key), receiver(cipher, key);
    std::byte record[RecordCipher::overhead + 1];
    for (std::uint64_t i = 0; i < records_of_a_key + 3; ++i) {
        const auto sent = static_cast<std::byte>(i);
        sender.seal(&sent, 1, record);
        if (i == records_of_a_key) {
            // With the first key, this would be the record of that number.
            RecordCipher old(cipher, key);
            std::byte text;
            CHECK_FALSE(old.open(record, 1, &text));
        }
        std::byte text{};
        if (!receiver.open(record, 1, &text) || text != static_cast<std::byte>(i))
            FAIL("record " << i << " is not what was sent");
    }
}

TEST_CASE("arbitrary records break nothing (seeded)") {
    const Cipher cipher = GENERATE(from_range(ciphers()));
    std::mt19937 random(7);
    const Key key = random_key();
    for (int round = 0; round < 400; ++round) {
        std::vector<std::string> texts;
        for (std::size_t i = 0; i < 1 + random() % 6; ++i)
            texts.push_back(some_bytes(random, 1 + random() % (random() % 4 == 0 ? most_in_record : 40)));
        std::string sent, wire;
        for (const std::string& text : texts) sent += text;
        for (const std::string& record : records_of(cipher, key, texts)) wire += record;
        const bool is_spoiled = random() % 2 == 0;
        if (is_spoiled)
            for (std::size_t times = 1 + random() % 3; times > 0; --times) {
                const std::size_t at = random() % wire.size();
                if (random() % 3 == 0)
                    wire.erase(at, 1 + random() % 50);
                else if (random() % 2 == 0)
                    wire.insert(at, some_bytes(random, 1 + random() % 50));
                else
                    wire[at] = static_cast<char>(wire[at] + 1 + random() % 255);
            }
        const Heard heard = hear(cipher, key, wire, 1 + random() % 50'000);
        CHECK(sent.starts_with(heard.text));
        if (!is_spoiled) CHECK((heard.text == sent && heard.why == all_was_read));
    }
}

// ---- Handshakes ------------------------------------------------------------------------------------------

namespace {

// A host in this process and a guest on a thread.
struct Meeting {
    std::string guest_error = "";  // "": the guest has a connection
    Socket guest{};
    std::vector<Admitted> hosts{};
};

// Passes the frames of a handshake on, with one byte of one frame changed.
class Relay {
  public:
    Relay(Endpoint host, int frame, std::size_t at)
        : thread_([this, host, frame, at] {
              const Socket guest = next_guest(door_.fd()), onward = come_to(host);
              const Socket* ends[] = {&guest, &onward};
              try {
                  for (int i = 0; i < 4; ++i) {
                      Frame passing = hear_frame(*ends[i % 2]);
                      if (i == frame && at < passing.payload.size()) passing.payload[at] ^= 4;
                      if (i == frame && at >= passing.payload.size()) is_over_ = true;
                      say(*ends[1 - i % 2], passing.type, passing.payload);
                  }
              } catch (const HungUp&) {
              }
          }) {}
    ~Relay() { thread_.join(); }
    const Endpoint& endpoint() const { return door_.endpoint(); }
    bool is_over() const { return is_over_; }  // the frame has no such byte

  private:
    const Doorstep door_;
    std::atomic<bool> is_over_ = false;
    std::thread thread_;
};

Meeting meet(bool guest_encrypts, bool host_encrypts, const std::string& host_secret = "a secret",
             const std::function<Endpoint(const Endpoint&)>& way = {}) {
    Meeting meeting;
    const Doorstep door;
    SocketLoop loop(SocketLoop::Way::epoll);
    AdmissionTerms terms{"the test", host_secret, "wrong secret",
                         [&](Admitted one) { meeting.hosts.push_back(std::move(one)); },
                         [](const Hello&) { return std::string(); }};
    terms.encrypts = host_encrypts;
    terms.is_quiet = true;
    const Admission admission(loop, door.fd(), std::move(terms));
    std::atomic<bool> is_over = false;
    std::thread guest([&] {
        try {
            meeting.guest = dial({.to = way ? way(door.endpoint()) : door.endpoint(),
                                  .secret = "a secret",
                                  .rank = 1,
                                  .world_size = 2,
                                  .identity = "a guest",
                                  .encrypts = guest_encrypts},
                                 patience());
        } catch (const DialError& error) {
            meeting.guest_error = error.what();
        }
        is_over = true;
    });
    while (!is_over) loop.turn(Clock::now() + std::chrono::milliseconds(1));
    guest.join();
    return meeting;
}

}  // namespace

TEST_CASE("a handshake gives both ends keys that nobody else has, new ones each time") {
    std::set<std::string> wires;
    for (int round = 0; round < 4; ++round) {
        Meeting meeting = meet(true, true);
        REQUIRE(meeting.guest_error == "");
        REQUIRE(meeting.hosts.size() == 1);
        Socket& host = meeting.hosts[0].socket;
        REQUIRE(meeting.guest.sealed());
        CHECK(meeting.guest.sealed()->cipher() == best_cipher(known_ciphers()));
        const std::string text = "a text that must not be read on the way";
        REQUIRE(send_some(meeting.guest, text).bytes == text.size());
        std::string wire(1000, '\0');
        wire.resize(static_cast<std::size_t>(recv(host.fd(), wire.data(), wire.size(), MSG_PEEK)));
        CHECK(wire.size() == text.size() + RecordCipher::overhead);
        CHECK(wire.find("text") == std::string::npos);
        CHECK(wires.insert(wire).second);
        char room[100];
        const Transfer got = receive_some(host, room);
        CHECK(std::string(room, got.bytes) == text);
        REQUIRE(send_some(host, text).bytes == text.size());
        const Transfer back = receive_some(meeting.guest, room);
        CHECK(std::string(room, back.bytes) == text);
    }
}

TEST_CASE("both ends must want the same, and say so") {
    const bool guest = GENERATE(false, true);
    const Meeting meeting = meet(guest, !guest);
    CHECK(meeting.hosts.empty());
    CHECK(meeting.guest_error ==
          fmt::format("HOCKET_ENCRYPTION is {} there and {} here; set it alike in all processes of a job",
                      guest ? "off" : "on", guest ? "on" : "off"));
}

TEST_CASE("without encryption nothing is sealed, and a wrong secret is refused with it, too") {
    const Meeting plain = meet(false, false);
    CHECK(plain.guest_error == "");
    CHECK(plain.guest.sealed() == nullptr);
    CHECK(meet(true, true, "another secret").guest_error == "wrong secret");
}

TEST_CASE("a handshake in which any byte was changed on the way makes no connection") {
    for (int frame = 0; frame < 4; ++frame) {
        std::size_t at = 0;
        for (bool is_over = false; !is_over; ++at) {
            std::optional<Relay> relay;
            const Meeting meeting = meet(true, true, "a secret", [&](const Endpoint& host) {
                return relay.emplace(host, frame, at).endpoint();
            });
            is_over = relay->is_over();
            CAPTURE(frame, at);
            CHECK((meeting.guest_error == "") == is_over);
            CHECK((is_over || meeting.guest.sealed() == nullptr));
            // The host cannot know what becomes of its last frame.
            CHECK((meeting.hosts.empty() || is_over || frame == 3));
        }
        CHECK(at > proof_size);
    }
}

TEST_CASE("members are told that what came was changed, and not that a host is down") {
    SealedPair pair(Cipher::chacha20_poly1305);
    Link link(std::move(pair.ours), 1000);
    link.queue(FrameType::heartbeat);
    link.flush();
    REQUIRE(send(pair.theirs.fd(), std::string(100, 'x').data(), 100, MSG_NOSIGNAL) == 100);
    while (link.receive() == Link::State::open) usleep(100);
    CHECK(link.receive() == Link::State::damaged);
    CHECK(link.failure() == damaged_record_text);
    link.queue(FrameType::heartbeat);
    CHECK_FALSE(link.has_output());
}

TEST_CASE("who is called again is called once a turn") {
    struct Counter final : SocketLoop::Watcher {
        void ready(std::uint32_t) override { ++calls, loop->again(fd), loop->again(fd); }
        SocketLoop* loop = nullptr;
        int fd = -1, calls = 0;
    };
    for (const auto way : {SocketLoop::Way::epoll, SocketLoop::Way::poll}) {
        const ConnectedPair pair;
        SocketLoop loop(way);
        Counter counter;
        counter.loop = &loop;
        counter.fd = pair.ours.fd();
        loop.watch(counter.fd, POLLIN, counter);
        loop.again(counter.fd);
        for (int turn = 1; turn <= 5; ++turn) {
            loop.turn(patience().deadline);
            CHECK(counter.calls == turn);
        }
        REQUIRE(send_some(pair.theirs, "x").bytes == 1);  // from now on the kernel calls it as well
        for (int turn = 1; turn <= 5; ++turn) loop.turn(patience().deadline);
        CHECK(counter.calls <= 5 + 2 * 5);
        loop.forget(counter.fd);
        const int before = counter.calls;
        loop.turn(Clock::now());
        CHECK(counter.calls == before);
    }
}

TEST_CASE("a host that chooses what it was not offered, or shows no key, is refused") {
    const Hello hello{1, 2, std::string(nonce_size, 'g'), "", 2};
    const auto challenge = [](std::uint32_t cipher) {
        return PayloadWriter().bytes(std::string(nonce_size, 'h')).u32(cipher).text();
    };
    CHECK(decode_challenge(challenge(1), hello).cipher == Cipher::chacha20_poly1305);
    for (const std::uint32_t wrong : {0U, 2U, 3U, 31U, 32U, 33U, UINT32_MAX})
        CHECK_THROWS_WITH(decode_challenge(challenge(wrong), hello), Contains("not offered"));
    CHECK_THROWS_WITH(decode_challenge(std::string(nonce_size, 'h'), hello), Contains("wrong size"));
    CHECK_THROWS_WITH(decode_challenge(challenge(1), Hello{1, 2, hello.nonce}), Contains("wrong size"));
    const KeyHalves own = fresh_key_halves();
    CHECK_FALSE(agree_on_keys("secret", own, std::string(nonce_size, '\0'), ""));  // a point of low order
    CHECK_FALSE(agree_on_keys("secret", own, "short", ""));
}

TEST_CASE("keys depend on the secret, on both halves and on all that was said") {
    const KeyHalves a = fresh_key_halves(), b = fresh_key_halves(), c = fresh_key_halves();
    const auto keys = agree_on_keys("secret", a, b.shown, "said");
    const auto same = agree_on_keys("secret", b, a.shown, "said");
    REQUIRE(keys);
    REQUIRE(same);
    CHECK(keys->from_guest == same->from_guest);
    CHECK(keys->from_host == same->from_host);
    CHECK(keys->from_guest != keys->from_host);
    CHECK(agree_on_keys("secret!", a, b.shown, "said")->from_guest != keys->from_guest);
    CHECK(agree_on_keys("secret", a, c.shown, "said")->from_guest != keys->from_guest);
    CHECK(agree_on_keys("secret", a, b.shown, "said!")->from_guest != keys->from_guest);
}
