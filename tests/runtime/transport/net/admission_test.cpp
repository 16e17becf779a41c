// The host's side of a handshake: members, strangers, and strangers in masses.
#include "runtime/transport/net/admission.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/runtime/transport/net/handshakes.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;
using Catch::Contains;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Collects the lines on stderr of this process and its children, until its end.
class StderrFile {
  public:
    StderrFile() : kept_(dup(STDERR_FILENO)) {
        const int file = open(path_.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
        REQUIRE(dup2(file, STDERR_FILENO) >= 0);
        close(file);
    }
    ~StderrFile() {
        dup2(kept_, STDERR_FILENO);
        close(kept_);
        std::filesystem::remove(path_);
    }
    std::vector<std::string> lines() const {
        std::ifstream stream(path_);
        std::vector<std::string> all;
        for (std::string line; std::getline(stream, line);) all.push_back(line);
        return all;
    }

  private:
    const std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / fmt::format("hocket-strangers-{}", getpid());
    const int kept_;
};

// The host's answer to the stranger.
std::string fate_of(AdmittingHost& host, const Socket& stranger) {
    std::string heard;
    for (FrameParser parser(max_refusal_payload);;) {
        host.await(stranger);
        try {
            while (const auto frame = take_frame(stranger, parser))
                heard += frame->type == FrameType::challenge ? "challenge, "
                         : frame->type == FrameType::refused ? frame->payload
                                                             : "what is not for strangers";
        } catch (const HungUp&) {
            return heard;
        }
    }
}

}  // namespace

TEST_CASE("whoever knows the secret is let in, with what it says of itself and what it says next") {
    const Doorstep door;
    AdmittingHost host(door.fd());
    const Hello hello{3, 8, fresh_nonce(), std::string(max_identity_size, 'i')};
    const Socket guest = come_to(door.endpoint());
    say(guest, FrameType::hello, encode_hello(hello));
    host.await(guest);
    const std::string nonce = hear_frame(guest).payload;
    put(guest, encode_frame(FrameType::proof, make_proof(job_secret, Side::guest, hello, nonce)) + "behind");
    host.await(1);
    CHECK(host.guests[0].hello.rank == 3);
    CHECK(host.guests[0].hello.world_size == 8);
    CHECK(host.guests[0].hello.identity == hello.identity);
    CHECK_THAT(host.guests[0].from, Contains("127.0.0.1:"));
    CHECK(hear_frame(guest).payload == make_proof(job_secret, Side::host, hello, nonce));
    char bytes[10];
    CHECK(read(host.guests[0].socket.fd(), bytes, sizeof bytes) == 6);
    CHECK(host.admission.troubles() == "");
}

TEST_CASE("whoever is no guest is told why, and logged") {
    const StderrFile log;
    const Doorstep door;
    AdmittingHost host(door.fd());
    const auto fate_with = [&](const Hello& hello, const std::string& key, Side side) {
        const Socket stranger = come_to(door.endpoint());
        say(stranger, FrameType::hello, encode_hello(hello));
        host.await(stranger);
        const std::string nonce = hear_frame(stranger).payload;
        say(stranger, FrameType::proof, make_proof(key, side, hello, nonce));
        return fate_of(host, stranger);
    };
    const auto fate_after = [&](const std::string& bytes) {
        const Socket stranger = come_to(door.endpoint());
        put(stranger, bytes);
        return fate_of(host, stranger);
    };
    const Hello hello{1, 2, fresh_nonce()};
    CHECK(fate_with(hello, "a guess", Side::guest) == "wrong secret");
    CHECK(fate_with(hello, job_secret, Side::host) == "wrong secret");
    CHECK(fate_with({13, 20, fresh_nonce()}, job_secret, Side::guest) == "nobody may be rank 13");
    CHECK(fate_after("GET / HTTP/1.0\r\n\r\n") == "it does not speak Hocket's protocol");
    CHECK(fate_after(encode_frame(FrameType::proof, fresh_nonce())) == "it did not begin with a hello");
    CHECK(fate_after(encode_frame(FrameType::hello, std::string(max_hello_size + 1, 'x')).substr(0, 12)) ==
          "it announced a message of 301 bytes where at most 300 are allowed");
    const std::string twice = encode_frame(FrameType::hello, encode_hello(hello));
    CHECK(fate_after(twice + twice) == "challenge, it did not answer the challenge");
    CHECK(host.guests.empty());
    CHECK_THAT(log.lines().at(0), Contains("hocket: the test turned away a connection from 127.0.0.1:") &&
                                      Contains(": wrong secret"));
    CHECK(log.lines().size() == 7);
    CHECK_THAT(host.admission.troubles(), Contains("\n  turned away meanwhile: 127.0.0.1:"));
}

TEST_CASE("the silent are dropped when their time is over, and all who are left when all is over") {
    const Doorstep door;
    AdmittingHost host(door.fd());
    const Socket silent = come_to(door.endpoint());
    CHECK(fate_of(host, silent) == "");
    CHECK_THAT(host.admission.troubles(), Contains("did not prove within 5 s that it knows the secret"));
    const Socket late = come_to(door.endpoint()), begun = come_to(door.endpoint());
    say(begun, FrameType::hello, encode_hello({1, 2, fresh_nonce()}));
    host.await(begun);
    host.admission.refuse_all("all have come");
    CHECK(fate_of(host, begun) == "challenge, all have come");
    CHECK(fate_of(host, late) == "all have come");
}

TEST_CASE("strangers in masses use up neither descriptors nor lines, and members come in") {
    const auto way = GENERATE(SocketLoop::Way::epoll, SocketLoop::Way::poll);
    const StderrFile log;
    const Doorstep door;
    Processes processes;
    processes.start([&]() -> std::string {
        const int next = dup(0);
        const rlimit few{static_cast<rlim_t>(next) + 20, static_cast<rlim_t>(next) + 20};
        expect(setrlimit(RLIMIT_NOFILE, &few) == 0, "few descriptors");
        close(next);
        AdmittingHost host(door.fd(), way);
        host.await(1);
        return host.admission.troubles();
    });
    processes.start([&]() -> std::string {
        std::vector<Socket> silent;
        for (int i = 0; i < 100; ++i) silent.push_back(come_to(door.endpoint()));
        dial({.to = door.endpoint(), .secret = job_secret}, patience());
        return "";
    });
    const auto outcomes = processes.wait();
    for (const Outcome& outcome : outcomes) {
        INFO(outcome.text);
        CHECK(outcome.exit_code == 0);
    }
    CHECK_THAT(outcomes[0].text, Contains("others came before it had proved") && Contains("more"));
    CHECK(log.lines().size() == 17);
    CHECK_THAT(log.lines().back(), Contains("hocket: the test turned away") && Contains("more connections"));
}

TEST_CASE("a host without descriptors says so, and takes guests when there are some") {
    const Doorstep door;
    {  // The sanitizers need descriptors when they see a type for the first time.
        AdmittingHost rehearsal(door.fd(), SocketLoop::Way::poll);
        const Socket stranger = come_to(door.endpoint());
        rehearsal.loop.turn(patience().deadline);
    }
    Processes processes;
    processes.start([&]() -> std::string {
        const int next = dup(0);
        close(next);
        rlimit limit{};
        expect(getrlimit(RLIMIT_NOFILE, &limit) == 0, "a limit");
        const rlim_t all = std::exchange(limit.rlim_cur, static_cast<rlim_t>(next));
        expect(setrlimit(RLIMIT_NOFILE, &limit) == 0, "none");
        AdmittingHost host(door.fd(), SocketLoop::Way::poll);
        while (host.admission.troubles().empty()) host.loop.turn(patience().deadline);
        limit.rlim_cur = all;
        expect(setrlimit(RLIMIT_NOFILE, &limit) == 0, "as many as before");
        host.await(1);
        return host.admission.troubles();
    });
    dial({.to = door.endpoint(), .secret = job_secret}, patience());
    CHECK_THAT(
        processes.wait()[0].text,
        Contains("the test could not take all connections: Too many open files") && Contains("ulimit -n"));
}

TEST_CASE("whatever strangers send admits nobody, and tells them nothing (seeded)") {
    const StderrFile log;
    std::mt19937 random(20250612);
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::uint8_t> bytes(random() % 40);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        REQUIRE(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()) == 0);
    }
}
