// The guest's side of a handshake: peers that are no hosts, that do not answer, that do not exist.
#include "runtime/transport/net/dial.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

Dial call_of(const Endpoint& host) {
    return {.to = host, .secret = job_secret, .rank = 1, .world_size = 2, .identity = "a guest"};
}

// "" if there is a connection.
std::string error_of(const Dial& call, const Patience& patience) {
    const char* kinds[] = {"unreachable", "silent", "refused", "impostor"};
    try {
        dial(call, patience);
        return "";
    } catch (const DialError& error) {
        return std::string(kinds[static_cast<int>(error.kind)]) + ": " + error.what();
    }
}

}  // namespace

TEST_CASE("what answers without the secret, or without the protocol, is an impostor") {
    Processes processes;
    const Doorstep impostor;
    const std::string expected = GENERATE(
        "impostor: it does not know this job's secret", "impostor: it does not speak Hocket's protocol",
        "impostor: it sent an unexpected message", "impostor: it sent a challenge of the wrong size");
    processes.start([&]() -> std::string {
        const Socket guest = next_guest(impostor.fd());
        if (expected.ends_with("secret")) welcome(guest, job_secret, "another secret");
        if (expected.ends_with("protocol")) put(guest, "HTTP/1.1 400 Bad Request\r\n\r\n");
        if (expected.ends_with("message")) say(guest, FrameType::welcome, fresh_nonce());
        if (expected.ends_with("size")) say(guest, FrameType::challenge, "short");
        try {
            for (;;) hear_frame(guest);
        } catch (const HungUp&) {
            return "";
        }
    });
    CHECK(error_of(call_of(impostor.endpoint()), patience()) == expected);
    require_success(processes.wait());
}

TEST_CASE("a guest is told why it is refused, in words that are fit for a terminal") {
    Processes processes;
    const Doorstep host;
    processes.start([&]() -> std::string {
        say(next_guest(host.fd()), FrameType::refused, "go \x1b[31maway");
        return "";
    });
    CHECK(error_of(call_of(host.endpoint()), patience()) == "refused: go ?[31maway");
    require_success(processes.wait());
}

TEST_CASE("a guest whose connection is closed before the welcome comes again, and reads nothing behind it") {
    Processes processes;
    const Doorstep host;
    processes.start([&]() -> std::string {
        next_guest(host.fd());
        say(next_guest(host.fd()), FrameType::challenge, fresh_nonce());
        Socket reset_one = next_guest(host.fd());
        reset(reset_one);
        const Socket guest = next_guest(host.fd());
        const Hello hello = welcome(guest, job_secret, job_secret);
        expect(put(guest, "behind"), "bytes behind the welcome");
        expect(hello.rank == 1 && hello.world_size == 2 && hello.identity == "a guest", "what the guest is");
        char byte;
        return std::to_string(read(guest.fd(), &byte, 1));
    });
    Dial call = call_of(host.endpoint());
    call.gone_for = long_enough;  // a reset may come before the guest has seen that it is connected
    const Socket socket = dial(call, patience());
    pollfd entry{socket.fd(), POLLIN, 0};
    std::string behind;
    for (char bytes[10]; behind.size() < 6 && poll_until({&entry, 1}, patience().deadline) == 1;)
        behind.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(0, read(socket.fd(), bytes, 10))));
    CHECK(behind == "behind");
}

TEST_CASE("a host that is silent, or closes all connections, is so when time is over") {
    const Doorstep host;
    CHECK(error_of(call_of(host.endpoint()), {Clock::now() + 100ms}) ==
          "silent: it accepts connections but does not answer");
    Processes processes;
    processes.start([&]() -> std::string {
        for (;;) next_guest(host.fd());
    });
    CHECK_THAT(error_of(call_of(host.endpoint()), {Clock::now() + 300ms}), Contains("silent: it "));
}

TEST_CASE("a host at which nobody listens is tried again for as long as the guest says, and no longer") {
    Endpoint at = Doorstep().endpoint();
    CHECK(error_of(call_of(at), patience()) == "unreachable: Connection refused");
    Dial stubborn = call_of(at);
    stubborn.gone_for = 1h;
    CHECK(error_of(stubborn, {Clock::now() + 100ms}) == "unreachable: Connection refused");
    int questions = 0;
    const auto bad_news = [&]() -> std::optional<std::string> {
        if (++questions < 5) return std::nullopt;
        return "rank 7 was lost";
    };
    CHECK_THROWS_WITH(dial(stubborn, {Clock::now() + 1h, bad_news}), "rank 7 was lost");
    const Doorstep silent;
    questions = 0;
    CHECK_THROWS_WITH(dial(call_of(silent.endpoint()), {Clock::now() + 1h, bad_news}), "rank 7 was lost");
}

TEST_CASE("each reason of all attempts is told once, by its address, in the order in which they came") {
    int attempts = 0;
    Dial call = call_of({"node", 29500});
    call.gone_for = 1h;
    call.connect = [&](const Patience&, Reasons& reasons) {
        reasons.add("10.0.0.1", attempts++ == 1 ? "Connection timed out" : "Connection refused");
        reasons.add("fd00::1", "Network is unreachable");
        return Socket();
    };
    CHECK(error_of(call, {Clock::now() + 1200ms}) ==
          "unreachable: 10.0.0.1: Connection refused, then Connection timed out; fd00::1: Network is "
          "unreachable");
    CHECK(attempts > 2);
}

TEST_CASE("a host that answers no more keeps the reasons of earlier attempts") {
    Processes processes;
    const Doorstep host;
    const Tally running, told;
    processes.start([&]() -> std::string {
        running.add();
        next_guest(host.fd());  // is closed
        const Socket guest = next_guest(host.fd());
        told.await(1);
        return "";
    });
    running.await(1);
    Dial call = call_of(host.endpoint());
    call.gone_for = 1h;
    call.connect = [&, attempts = 0](const Patience& patience, Reasons& reasons) mutable {
        if (attempts++ > 0) return connect_to(host.endpoint(), patience, reasons);
        reasons.add("", "Connection refused");
        return Socket();
    };
    CHECK_THAT(error_of(call, {Clock::now() + 3s}),
               Contains("silent: Connection refused, then it closes connections before it has answered them, "
                        "then it accepts connections but does not answer"));
    told.add();
    require_success(processes.wait());
}

TEST_CASE("any reasons are told once by address, and of too many the first, with a word on the others") {
    std::mt19937 random(11);
    for (int round = 0; round < 500; ++round) {
        Reasons reasons;
        std::vector<std::string> addresses;                    // in the order in which they came
        std::map<std::string, std::vector<std::string>> whys;  // the same, of each
        const unsigned kinds = 1 + random() % 12, count = random() % 60;
        for (unsigned i = 0; i < count; ++i) {
            const std::string address = fmt::format("10.0.0.{}", random() % kinds),
                              why = fmt::format("<{}>", random() % kinds);
            reasons.add(address, why);
            auto& known = whys[address];
            if (known.empty()) addresses.push_back(address);
            if (std::find(known.begin(), known.end(), why) == known.end()) known.push_back(why);
        }
        std::string expected;
        for (std::size_t i = 0; i < std::min<std::size_t>(addresses.size(), 8); ++i) {
            const auto& all = whys[addresses[i]];
            expected += (i > 0 ? "; " : "") + addresses[i] + ": ";
            for (std::size_t j = 0; j < std::min<std::size_t>(all.size(), 4); ++j)
                expected += (j > 0 ? ", then " : "") + all[j];
            if (all.size() > 4) expected += ", and for other reasons";
        }
        if (addresses.size() > 8) expected += "; and other addresses";
        CHECK(reasons.text() == expected);
        CHECK(reasons.are_known() == (count > 0));
    }
}

TEST_CASE("a host that is there has the last word when time is over") {
    Processes processes;
    const Doorstep host;
    processes.start([&]() -> std::string {
        const Socket guest = next_guest(host.fd());
        hear_frame(guest);
        std::this_thread::sleep_for(200ms);  // until the guest's deadline
        say(guest, FrameType::refused, "too late");
        return "";
    });
    Dial call = call_of(host.endpoint());
    call.last_word = long_enough;
    CHECK(error_of(call, {Clock::now() + 100ms}) == "refused: too late");
    require_success(processes.wait());
}
