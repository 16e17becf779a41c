// A service whose other end is the test: late, damaged or made-up messages, and strangers.
#include <filesystem>
#include <random>

#include "runtime/transport/net/frame.hpp"
#include "tests/runtime/cache/peers/parts.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::cache;
using namespace hocket::transport;

namespace {

// A service that asks a host whose bytes are the test's.
struct RawHost {
    RawHost() : listener(listen_somewhere()), guest(options_of(-1, nullptr)) {
        guest.connect({{"127.0.0.1", port_of(listener)}});
    }
    // The connection is there from the first question on.
    PeerHeader hear_question() {
        if (!socket.is_open()) socket = raw_host(listener);
        return hear_header(socket);
    }
    void answer(const PeerHeader& question, const Bytes& payload, bool is_damaged = false) {
        const Bytes bytes = wire_message(answer_to(question), payload, is_damaged);
        say(socket, bytes.data(), bytes.size());
    }
    static PeerHeader answer_to(const PeerHeader& question) {
        PeerHeader header;
        header.kind = PeerMessage::answer;
        header.id = question.id;
        header.key = question.key;
        return header;
    }
    Socket listener, socket;
    PeerService guest;
};

std::size_t open_files() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("an answer that is late by its second half does not touch the block any more") {
    RawHost host;
    Question late, next;
    host.guest.ask(0, 1, a_while, late);
    const PeerHeader question = host.hear_question();
    CHECK(question.kind == PeerMessage::question);
    CHECK(question.patience_ms <= a_while.count());
    const Bytes payload = sample(1, 1 << 20), all = wire_message(RawHost::answer_to(question), payload);
    say(host.socket, all.data(), all.size() / 2);
    CHECK(late.await() == Status::timeout);
    CHECK(late.rooms == 1);
    say(host.socket, all.data() + all.size() / 2, all.size() - all.size() / 2);
    host.guest.ask(0, 2, long_enough, next);
    host.answer(host.hear_question(), payload);
    CHECK(next.await() == Status::success);
    CHECK(next.is(payload));
    CHECK(late.answers == 1);
    CHECK(late.block == late.at_answer);
}

TEST_CASE("a question that waits for room is answered at its deadline") {
    RawHost host;
    Question stuck, next;
    stuck.on_room = [](std::uint64_t) { return SampleRoom{nullptr, true}; };
    host.guest.ask(0, 1, a_while, stuck);
    host.answer(host.hear_question(), sample(1, 100000));
    CHECK(stuck.await() == Status::timeout);
    host.guest.ask(0, 2, long_enough, next);
    host.answer(host.hear_question(), {});
    CHECK(next.await() == Status::success);
    CHECK(next.is({}));
}

TEST_CASE("damaged bytes spoil one answer, a damaged header the connection") {
    RawHost host;
    const Bytes payload = sample(1, 50000);
    Question damaged, whole, lost;
    host.guest.ask(0, 1, long_enough, damaged);
    host.answer(host.hear_question(), payload, true);
    CHECK(damaged.await() == Status::io);
    CHECK_THAT(damaged.text, Catch::Contains("50000 bytes") && Catch::Contains("checksum"));
    host.guest.ask(0, 2, long_enough, whole);
    host.answer(host.hear_question(), payload);
    CHECK(whole.await() == Status::success);

    host.guest.ask(0, 3, long_enough, lost);
    const PeerHeader question = host.hear_question();
    PeerHeader answer = RawHost::answer_to(question);
    Bytes wrong;
    SECTION("its checksum is wrong") {
        wrong = wire_message(answer);
        wrong[9] ^= std::byte{1};
    }
    SECTION("nobody asked") {
        ++answer.id;
        wrong = wire_message(answer);
    }
    SECTION("it is for another sample") {
        ++answer.key;
        wrong = wire_message(answer);
    }
    SECTION("it is a question") {
        answer.kind = PeerMessage::question;
        wrong = wire_message(answer);
    }
    say(host.socket, wrong.data(), wrong.size());
    CHECK(lost.await() == Status::peer_lost);
    CHECK(hear(host.socket, 1).empty());
}

TEST_CASE("an offer's bytes are left alone once it is answered, whenever that is") {
    RawHost host;
    Bytes bytes = sample(1, 32 << 20);
    Question offer, next;
    host.guest.offer(0, 1, bytes, a_while, offer);
    const PeerHeader header = host.hear_question();
    CHECK(header.kind == PeerMessage::offer);
    SECTION("at its deadline") {}
    SECTION("by an answer that comes before its end") {
        host.answer(header, {});
    }
    offer.await();
    bytes = {};  // the sanitizers report any later read of it
    const Bytes heard = hear(host.socket, header.bytes + peer_checksum_size);
    PeerChecksum checksum;
    checksum.begin(header.key);
    checksum.add(std::span(heard).first(header.bytes));
    std::uint64_t value;
    std::memcpy(&value, heard.data() + header.bytes, sizeof value);
    CHECK(value != checksum.value());
    host.guest.ask(0, 2, long_enough, next);
    host.answer(host.hear_question(), {});
    CHECK(next.await() == Status::success);
}

TEST_CASE("rooms of offers that do not come whole are given back") {
    Samples samples;
    PeerService host(options_of(0, &samples));
    Socket guest = raw_guest(host.endpoint());
    PeerHeader header;
    header.kind = PeerMessage::offer;
    header.id = header.key = 5;
    header.patience_ms = 3600'000;
    SECTION("damaged") {
        const Bytes bytes = wire_message(header, sample(5, 100000), true);
        say(guest, bytes.data(), bytes.size());
        CHECK(hear_header(guest).status == Status::io);
    }
    SECTION("the guest dies") {
        const Bytes bytes = wire_message(header, sample(5, 100000));
        say(guest, bytes.data(), bytes.size() / 2);
        guest.close();
    }
    SECTION("the guest stops in the middle, and goes on after its deadline") {
        header.patience_ms = a_while.count();
        const Bytes bytes = wire_message(header, sample(5, 100000));
        say(guest, bytes.data(), bytes.size() / 2);
        samples.await([&] { return samples.broken == 1; }, "the room");
        header.kind = PeerMessage::question;
        header.id = 6;
        header.patience_ms = 3600'000;
        const Bytes question = wire_message(header);
        say(guest, bytes.data() + bytes.size() / 2, bytes.size() - bytes.size() / 2);
        say(guest, question.data(), question.size());
        CHECK(hear_header(guest).id == 6);
    }
    samples.await([&] { return samples.broken == 1; }, "the room");
    CHECK(samples.taken.empty());
}

TEST_CASE("no more than 1024 questions are taken from a connection at once") {
    Samples samples;
    samples.holds = true;
    const PeerService host(options_of(0, &samples));
    const Socket guest = raw_guest(host.endpoint());
    constexpr int count = 3000;
    for (std::uint64_t id = 1; id <= count; ++id) {
        PeerHeader header;
        header.id = header.key = id;
        header.patience_ms = 3600'000;
        const Bytes bytes = wire_message(header);
        say(guest, bytes.data(), bytes.size());
    }
    for (int answered = 0; answered < count;) {
        const int expected = std::min(count, answered + static_cast<int>(max_peer_questions));
        samples.await([&] { return samples.asked == expected; }, "the questions");
        for (int key = answered + 1; key <= expected; ++key) samples.release(static_cast<std::uint64_t>(key));
        for (; answered < expected; ++answered) {
            const PeerHeader header = hear_header(guest);
            CHECK(hear(guest, header.bytes + peer_checksum_size).size() == header.bytes + peer_checksum_size);
        }
    }
    CHECK(samples.most == max_peer_questions);
    samples.await([&] { return samples.done == count; }, "that all bytes are let go of");
}

TEST_CASE("bytes that a guest does not take are let go of at its deadline, or when it dies") {
    Samples samples;
    const PeerService host(options_of(0, &samples));
    Socket guest = raw_guest(host.endpoint());
    PeerHeader header;
    header.id = 1;
    header.key = Samples::large;
    header.patience_ms = a_while.count();
    SECTION("at its deadline") {}
    SECTION("when it dies") {
        header.patience_ms = 3600'000;
    }
    const Bytes bytes = wire_message(header);
    say(guest, bytes.data(), bytes.size());
    if (header.patience_ms > a_while.count()) {
        CHECK(hear_header(guest).bytes == Samples::size_of(Samples::large));
        reset(guest);
    }
    samples.await([&] { return samples.done == 1; }, "the bytes");
}

TEST_CASE("strangers keep nobody from being answered") {
    Samples samples;
    PeerPair pair(samples);
    std::mt19937 random(7);
    std::vector<Socket> strangers;
    const std::size_t open_before = open_files();
    const auto stranger = [&]() -> Socket& {
        std::string why;
        strangers.push_back(connect_to(pair.host.endpoint(), {Clock::now() + long_enough}, why));
        return strangers.back();
    };
    for (std::size_t i = 0; i < most_strangers() + 20; ++i) stranger();  // silent
    for (int i = 0; i < 50; ++i) {
        std::string noise(random() % 4000, '\0');
        for (char& c : noise) c = static_cast<char>(random());
        say(stranger(), noise.data(), noise.size());
    }
    Question question;
    ask_until_answered(pair.guest, question, 1);
    CHECK(question.status == Status::success);
    CHECK(open_files() <= open_before + strangers.size() + most_strangers() + 2);
    // A peer that sends anything but a hello gets an error, and nothing that depends on the secret.
    const Socket& last = stranger();
    say(last, "GET / HTTP/1.0\r\n\r\n", 18);
    const Bytes farewell = hear(last, 4096);
    const std::string text(reinterpret_cast<const char*>(farewell.data()), farewell.size());
    CHECK_THAT(text, Catch::EndsWith("it does not speak Hocket's protocol"));
}

TEST_CASE("mutated streams into a live connection end that connection alone") {
    Samples samples;
    samples.largest = 1 << 16;
    PeerPair pair(samples);
    std::mt19937_64 random(20240817);
    for (int round = 0; round < 300; ++round) {
        const Socket guest = raw_guest(pair.host.endpoint());
        Bytes stream;
        for (std::uint64_t id = 1; id <= 1 + random() % 8; ++id) {
            PeerHeader header;
            header.kind = random() % 2 ? PeerMessage::question : PeerMessage::offer;
            header.id = id;
            header.key = static_cast<std::uint64_t>(round) * 100 + id;
            header.patience_ms = static_cast<std::uint32_t>(random() % 2 * 3600'000);
            const bool is_offer = header.kind == PeerMessage::offer;
            const Bytes message = wire_message(header, is_offer ? sample(id, random() % (1 << 17)) : Bytes(),
                                               random() % 4 == 0);
            stream.insert(stream.end(), message.begin(), message.end());
        }
        for (std::uint64_t flips = random() % 4; flips > 0; --flips)
            stream[random() % stream.size()] ^= static_cast<std::byte>(1 + random() % 255);
        say(guest, stream.data(), random() % 2 ? stream.size() : random() % stream.size());
        Question question;
        const std::uint64_t key = static_cast<std::uint64_t>(round) * 100;
        pair.guest.ask(0, key, long_enough, question);
        REQUIRE(question.await() == Status::success);
        REQUIRE(question.is(sample(key, Samples::size_of(key))));
    }
}

TEST_CASE("a header is read as it was written, and with any bit changed not at all") {
    PeerHeader header;
    header.kind = PeerMessage::answer;
    header.id = 0x0102030405060708;
    header.key = ~std::uint64_t{0};
    header.bytes = max_peer_text;
    header.status = Status::not_found;
    const PeerHeaderBytes bytes = encode_peer_header(header);
    const PeerHeader read = decode_peer_header(bytes);
    CHECK(read.id == header.id);
    CHECK(read.key == header.key);
    CHECK(read.bytes == header.bytes);
    CHECK(read.status == header.status);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        PeerHeaderBytes wrong = bytes;
        wrong[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        CHECK_THROWS_AS(decode_peer_header(wrong), ProtocolError);
    }
    const auto makes_no_sense = [](PeerHeader wrong) {
        CHECK_THROWS_WITH(decode_peer_header(encode_peer_header(wrong)),
                          "it sent a header that makes no sense");
    };
    makes_no_sense({PeerMessage::answer, 1, 1, max_peer_text + 1, 0, Status::io});
    makes_no_sense({PeerMessage::answer, 1, 1, 0, 0, Status::in_progress});
    makes_no_sense({PeerMessage::answer, 1, 1, 0, 0, static_cast<Status>(lowest_status - 1)});
    makes_no_sense({PeerMessage::answer, 1, 1, 0, 5, Status::success});
    makes_no_sense({PeerMessage::answer, 1, 1, max_peer_bytes + 1, 0, Status::success});
    makes_no_sense({PeerMessage::question, 1, 1, 1, 0, Status::success});
    makes_no_sense({PeerMessage::offer, 1, 1, 1, 0, Status::io});
    makes_no_sense({static_cast<PeerMessage>(0), 1, 1, 0, 0, Status::success});
    makes_no_sense({static_cast<PeerMessage>(4), 1, 1, 0, 0, Status::success});
}
