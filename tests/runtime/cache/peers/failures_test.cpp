// Requests to a peer that dies, is silent, or has another secret or dataset.
#include <signal.h>
#include <unistd.h>

#include "tests/runtime/cache/peers/parts.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"
#include "tests/support/unused_port.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::cache;
using namespace hocket::transport;

namespace {

// A process that answers at the port, from the test's signal until it is killed. Create it before any thread.
class HostProcess {
  public:
    explicit HostProcess(int port) {
        REQUIRE(pipe(gate_) == 0);
        process_.start([this, port]() -> std::string {
            char byte;
            expect(read(gate_[0], &byte, 1) == 1, "it is told to begin");
            Samples samples;
            const PeerService service(options_of(0, &samples, port));
            for (;;) pause();
        });
    }
    ~HostProcess() {
        ::close(gate_[0]);
        ::close(gate_[1]);
    }
    void begin() { REQUIRE(write(gate_[1], "", 1) == 1); }
    void kill() { process_.signal(0, SIGKILL); }

  private:
    int gate_[2];
    Processes process_{250};
};

}  // namespace

TEST_CASE("a peer that is killed in the middle of an answer is lost at once, and comes back at its port") {
    const int port = unused_port();
    HostProcess first(port), second(port);
    first.begin();
    PeerService guest(options_of(-1, nullptr));
    guest.connect({{"127.0.0.1", port}});
    Question small;
    ask_until_answered(guest, small, 1);
    CHECK(small.status == Status::success);

    Question dying, waiting;
    dying.on_room = [&](std::uint64_t bytes) {  // some of it is here, most of it not yet sent
        first.kill();
        return dying.give(bytes);
    };
    guest.ask(0, Samples::large, 1h, dying);
    guest.ask(0, 2, 1h, waiting);
    CHECK(dying.await() == Status::peer_lost);
    CHECK(waiting.await() == Status::peer_lost);
    CHECK_THAT(dying.text, Catch::Contains("the connection with server 0 (127.0.0.1:"));

    second.begin();
    Question again;
    ask_until_answered(guest, again, 3);
    CHECK(again.is(sample(3, Samples::size_of(3))));
    CHECK(!guest.is_down(0));
    CHECK(dying.answers == 1);
    CHECK(dying.block == dying.at_answer);
    CHECK(dying.block.back() == untouched);
}

TEST_CASE("a peer that nobody serves is down, and asked again later") {
    const int port = unused_port();
    PeerService guest(options_of(-1, nullptr));
    guest.connect({{"127.0.0.1", port}});
    CHECK(!guest.is_down(0));
    Question refused, at_once;
    guest.ask(0, 1, long_enough, refused);
    CHECK(refused.await() == Status::peer_lost);
    CHECK_THAT(refused.text, Catch::Contains("there is no connection with server 0") &&
                                 Catch::Contains("Connection refused; is its process running"));
    Samples samples;
    for (int life = 0; life < 3; ++life) {
        const PeerService host(options_of(0, &samples, port));
        Question answered;
        ask_until_answered(guest, answered, 1);
        CHECK(answered.status == Status::success);
    }
}

TEST_CASE("who has another secret is told so, on both sides of it") {
    Samples samples;
    const PeerService host(options_of(0, &samples));
    PeerServiceOptions options = options_of(-1, nullptr);
    options.secret = "another";
    PeerService guest(std::move(options));
    guest.connect({host.endpoint()});
    Question question;
    guest.ask(0, 1, long_enough, question);
    CHECK(question.await() == Status::peer_lost);
    CHECK_THAT(question.text, Catch::Contains("it refused the connection: wrong secret (HOCKET_SECRET"));
    CHECK(samples.asked == 0);
}

TEST_CASE("another dataset is a mismatch that names both") {
    Samples samples;
    const PeerService host(options_of(0, &samples));
    PeerServiceOptions options = options_of(-1, nullptr);
    options.identity = "ffff0000";
    PeerService guest(std::move(options));
    guest.connect({host.endpoint()});
    const Bytes bytes = sample(1, 100000);
    Question question, offer;
    guest.ask(0, 1, long_enough, question);
    guest.offer(0, 1, bytes, long_enough, offer);
    CHECK(question.await() == Status::mismatch);
    CHECK(offer.await() == Status::mismatch);
    CHECK_THAT(question.text, Catch::Contains("0123abcd there, ffff0000 here"));
    CHECK(samples.asked == 0);
    CHECK(samples.taken.empty());
    PeerServiceOptions long_one = options_of(-1, nullptr);
    long_one.identity.assign(max_identity_size + 1, 'x');
    CHECK_THROWS_WITH(PeerService(std::move(long_one)), Catch::Contains("has 257 bytes, at most 256"));
}

TEST_CASE("a question is answered at its deadline, and a late answer is dropped") {
    Samples samples;
    samples.holds = true;
    PeerPair pair(samples);
    Question late, next;
    pair.guest.ask(0, 1, a_while, late);
    samples.await([&] { return samples.asked == 1; }, "the question");
    CHECK(late.await() == Status::timeout);
    CHECK_THAT(late.text, Catch::Contains("has not answered for sample 1 within 2000 ms"));
    pair.guest.ask(0, 2, long_enough, next);
    samples.await([&] { return samples.asked == 2; }, "the next question");
    samples.release(1);
    samples.release(2);
    CHECK(next.await() == Status::success);
    CHECK(late.answers == 1);
    CHECK(late.rooms == 0);
    samples.await([&] { return samples.done == 2; }, "that both are let go of");
    Question none;
    pair.guest.ask(0, 3, -1ms, none);
    CHECK(none.await() == Status::timeout);
}

TEST_CASE("a service that is closed answers what is open, and takes what is answered later") {
    Samples samples;
    samples.holds = true;
    auto host = std::make_unique<PeerService>(options_of(0, &samples));
    auto guest = std::make_unique<PeerService>(options_of(-1, nullptr));
    guest->connect({host->endpoint()});
    Question by_guest, by_host;
    guest->ask(0, 1, 1h, by_guest);
    samples.await([&] { return samples.asked == 1; }, "the question");
    SECTION("the one that asks") {
        guest.reset();
        CHECK(by_guest.status == Status::peer_lost);
        CHECK_THAT(by_guest.text, Catch::Contains("this process closes its cache"));
    }
    SECTION("the one that answers") {
        host.reset();
        CHECK(by_guest.await() == Status::peer_lost);
    }
    SECTION("one that is still being connected") {
        const Socket silent = listen_somewhere();
        PeerService lonely(options_of(-1, nullptr));
        lonely.connect({{"127.0.0.1", port_of(silent)}});
        lonely.ask(0, 1, 1h, by_host);
        guest.reset();
        host.reset();
    }
    samples.release(1);
    samples.await([&] { return samples.done == 1; }, "that it is let go of");
    CHECK(by_guest.answers == 1);
}
