// Making the connections: strangers, members in trouble, and members that don't come.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "runtime/error.hpp"
#include "runtime/net/frame.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/streams/mesh.hpp"
#include "tests/runtime/bootstrap/exchange.hpp"
#include "tests/runtime/streams/stream_pair.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

struct Invitation {
    explicit Invitation(const std::string& text) {
        PayloadReader reader(text);
        at.port = static_cast<int>(reader.u32());
        key = reader.bytes(nonce_size);
        at.host = reader.rest();
    }
    Endpoint at;
    std::string key;
};

// Fewer than asked for if the other end closes the connection.
std::string hear(const Socket& socket, std::size_t size) {
    std::string text;
    while (text.size() < size) {
        pollfd entry{socket.fd(), POLLIN, 0};
        expect(poll_until({&entry, 1}, Clock::now() + 10s) == 1, "an answer or an end");
        char bytes[100];
        const ssize_t n = recv(socket.fd(), bytes, std::min(sizeof bytes, size - text.size()), 0);
        if (n <= 0) break;
        text.append(bytes, static_cast<std::size_t>(n));
    }
    return text;
}

Socket come_to(const Invitation& host) {
    std::string why;
    Socket socket = connect_to(host.at, for_seconds(10), why);
    expect(socket.is_open(), "a connection: " + why);
    return socket;
}

std::string answer_to(const std::string& challenge, const std::string& key, const Hello& hello) {
    return encode_hello(hello) + make_proof(key, Side::guest, hello, challenge);
}

// A whole handshake by hand.
Socket come_as(std::uint32_t rank, std::uint32_t world, const Invitation& host) {
    Socket socket = come_to(host);
    const Hello hello{rank, world, fresh_nonce()};
    const std::string challenge = hear(socket, nonce_size);
    put(socket, answer_to(challenge, host.key, hello));
    expect(hear(socket, proof_size) == make_proof(host.key, Side::host, hello, challenge), "a welcome");
    return socket;
}

// Invitations of ranks that come by hand.
std::vector<std::string> invitations_of(const StreamMesh& host, std::size_t world) {
    std::vector<std::string> all{host.invitation()};
    while (all.size() < world) all.push_back("a rank of the test's");
    return all;
}

std::string error_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return fmt::format("{}: {}", static_cast<int>(error.status()), error.what());
    }
    return "no error";
}

// Before anybody forks: what a rank invites to is known to all. Another one in its place closes a process's
// own copy of the listener.
struct Host {
    StreamMesh mesh{"127.0.0.1"};
    Invitation invitation{mesh.invitation()};
};

}  // namespace

TEST_CASE("a rank that does not come is named when time is over, whatever strangers do") {
    Host host;
    Processes processes;
    processes.start([&] {
        return error_of([&] { host.mesh.connect(invitations_of(host.mesh, 3), {Clock::now() + 700ms}); });
    });
    processes.start([&]() -> std::string {  // something to read in every moment
        host.mesh = StreamMesh("127.0.0.1");
        for (std::string why;;) {
            const Socket socket = connect_to(host.invitation.at, for_seconds(1), why);
            if (!socket.is_open()) return "";
            put(socket, "x");
        }
    });
    host.mesh = StreamMesh("127.0.0.1");
    const auto outcomes = processes.wait();
    CHECK_THAT(outcomes[0].text, Catch::Contains("-7: no connection from ranks 1 and 2 at 127.0.0.1:") &&
                                     Catch::Contains("HOCKET_FABRIC_ADDR"));
}

TEST_CASE("a rank that is there but does not answer is named when time is over") {
    const Host host;
    StreamMesh guest("127.0.0.1");
    const std::vector<std::string> all{host.mesh.invitation(), guest.invitation()};
    CHECK_THAT(error_of([&] { guest.connect(all, {Clock::now() + 200ms}); }),
               Catch::Contains("-7: cannot connect to rank 0 at " + host.invitation.at.text()) &&
                   Catch::Contains("not answered in time"));
}

TEST_CASE("bad news ends the making of connections on both sides") {
    Host host;
    StreamMesh guest("127.0.0.1");
    const std::vector<std::string> all{host.mesh.invitation(), guest.invitation()};
    int questions = 0;
    const auto bad_news = [&]() -> std::optional<std::string> {
        if (++questions < 3) return std::nullopt;
        return "rank 7 was lost";
    };
    for (StreamMesh* mesh : {&guest, &host.mesh}) {
        questions = 0;
        CHECK(error_of([&] { mesh->connect(all, {Clock::now() + 1h, bad_news}); }) == "-6: rank 7 was lost");
    }
    host.mesh = StreamMesh("127.0.0.1");  // nobody listens any more at what the guest was told
    questions = 0;
    CHECK(error_of([&] { guest.connect(all, {Clock::now() + 1h, bad_news}); }) == "-6: rank 7 was lost");
    CHECK_THAT(error_of([&] { guest.connect(all, for_seconds(10)); }), Catch::Contains("Connection refused"));
}

TEST_CASE("what answers without the key is no member") {
    Processes processes;
    const Listener impostor;
    const std::string invitation = PayloadWriter()
                                       .u32(static_cast<std::uint32_t>(impostor.port()))
                                       .bytes(fresh_nonce())
                                       .bytes("127.0.0.1")
                                       .text();
    processes.start([&]() -> std::string {
        const Socket guest(accept(impostor.fd(), nullptr, nullptr));
        put(guest, fresh_nonce() + fresh_nonce());
        hear(guest, 1000);
        return "";
    });
    StreamMesh guest("127.0.0.1");
    const std::vector<std::string> all{invitation, guest.invitation()};
    CHECK_THAT(error_of([&] { guest.connect(all, for_seconds(10)); }),
               Catch::Contains("did not answer as a member of this job"));
    require_success(processes.wait());
}

TEST_CASE("a member whose connection is closed before the welcome comes again") {
    Processes processes;
    const Listener host;
    const std::string key = fresh_nonce();
    const std::string invitation =
        PayloadWriter().u32(static_cast<std::uint32_t>(host.port())).bytes(key).bytes("127.0.0.1").text();
    processes.start([&]() -> std::string {
        const auto next = [&] { return Socket(accept(host.fd(), nullptr, nullptr)); };
        next();
        put(next(), fresh_nonce());
        Socket reset_one = next();
        reset(reset_one);
        const Socket guest = next();
        const std::string challenge = fresh_nonce();
        put(guest, challenge);
        const std::string answer = hear(guest, 8 + nonce_size + proof_size);
        const Hello hello = decode_hello(answer.substr(0, 8 + nonce_size));
        expect(answer == answer_to(challenge, key, hello), "the guest's proof");
        expect(hello.rank == 1 && hello.world_size == 2, "rank 1 of 2");
        put(guest, make_proof(key, Side::host, hello, challenge));
        return hear(guest, 5);
    });
    StreamMesh guest("127.0.0.1");
    const std::vector<std::string> all{invitation, guest.invitation()};
    const auto sockets = guest.connect(all, for_seconds(10));
    put(sockets[0], "hello");
    CHECK(processes.wait()[0].text == "hello");
}

TEST_CASE("of two connections of a member the second counts, since it has lost the first") {
    Host host;
    Processes processes;
    processes.start([&] {
        const auto sockets = host.mesh.connect(invitations_of(host.mesh, 3), for_seconds(10));
        return hear(sockets[1], 6) + hear(sockets[2], 5);
    });
    const Socket first = come_as(1, 3, host.invitation);
    const Socket second = come_as(1, 3, host.invitation);
    CHECK(hear(first, 1) == "");
    const Socket other = come_as(2, 3, host.invitation);
    put(second, "second");
    put(other, "other");
    CHECK(processes.wait()[0].text == "secondother");
}

TEST_CASE("silent strangers do not use up the descriptors") {
    Host host;
    Processes processes;
    processes.start([&]() -> std::string {
        const int next = dup(0);
        const rlimit few{static_cast<rlim_t>(next) + 20, static_cast<rlim_t>(next) + 20};
        expect(setrlimit(RLIMIT_NOFILE, &few) == 0, "few descriptors");
        close(next);
        const auto sockets = host.mesh.connect(invitations_of(host.mesh, 2), for_seconds(15));
        return hear(sockets[1], 5);
    });
    processes.start([&]() -> std::string {
        std::vector<Socket> silent;
        for (int i = 0; i < 100; ++i) silent.push_back(come_to(host.invitation));
        put(come_as(1, 2, host.invitation), "hello");
        return "";
    });
    const auto outcomes = processes.wait();
    require_success(outcomes);
    CHECK(outcomes[0].text == "hello");
}

TEST_CASE("a host without descriptors says so") {
    Host host;
    Processes processes;
    processes.start([&] {
        const rlimit none{3, 3};
        expect(setrlimit(RLIMIT_NOFILE, &none) == 0, "no more descriptors");
        return error_of([&] { host.mesh.connect(invitations_of(host.mesh, 2), {Clock::now() + 500ms}); });
    });
    const Socket member = come_to(host.invitation);
    CHECK_THAT(processes.wait()[0].text, Catch::Contains("no connection from rank 1") &&
                                             Catch::Contains("Too many open files") &&
                                             Catch::Contains("ulimit -n"));
}

TEST_CASE("arbitrary bytes from strangers admit nobody, and learn nothing (seeded)") {
    Host host;
    const auto log = std::filesystem::temp_directory_path() / fmt::format("hocket-strangers-{}", getpid());
    Processes processes(60);
    processes.start([&] {
        const int file = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
        dup2(file, STDERR_FILENO);
        const auto sockets = host.mesh.connect(invitations_of(host.mesh, 2), for_seconds(50));
        return hear(sockets[1], 5);
    });
    processes.start([&]() -> std::string {
        std::mt19937 random(20250612);
        const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        std::string overheard;  // of another connection
        for (int round = 0; round < 1000; ++round) {
            const Socket socket = come_to(host.invitation);
            const std::string challenge = hear(socket, nonce_size);
            const Hello hello{1, 2, fresh_nonce()};
            std::string answer = answer_to(challenge, host.invitation.key, hello);
            switch (below(6)) {
                case 0:
                    answer[below(answer.size())] ^= static_cast<char>(1 << below(8));
                    break;
                case 1:
                    answer.resize(below(answer.size()));
                    break;
                case 2:
                    for (char& c : answer) c = static_cast<char>(random());
                    break;
                case 3:
                    answer = answer_to(challenge, host.invitation.key, {2, 2, fresh_nonce()});
                    break;
                case 4:
                    answer = answer_to(challenge, host.invitation.key, {1, 3, fresh_nonce()});
                    break;
                default:
                    std::swap(answer, overheard);
                    break;  // a replay
            }
            const std::size_t cut = below(answer.size() + 1);
            put(socket, answer.substr(0, cut));
            if (below(2)) std::this_thread::yield();
            put(socket, answer.substr(cut));
            shutdown(socket.fd(), SHUT_WR);
            expect(hear(socket, 1) == "", "nothing but the challenge for a stranger");
        }
        put(come_as(1, 2, host.invitation), "hello");
        return "";
    });
    const auto outcomes = processes.wait();
    require_success(outcomes);
    CHECK(outcomes[0].text == "hello");
    std::ifstream stream(log);
    int lines = 0;
    std::string last;
    for (std::string line; std::getline(stream, line); ++lines) last = line;
    CHECK(lines == 17);
    CHECK_THAT(last, Catch::Contains("turned away 984 more connections"));
    std::filesystem::remove(log);
}

TEST_CASE("only addresses of this host, in numbers, are listened at") {
    for (const std::string address : {"0.0.0.0", "::", "localhost", "203.0.113.7", "fe80::1"}) {
        INFO(address);
        CHECK_THAT(error_of([&] { StreamMesh mesh(address); }),
                   Catch::Contains("-5: provider 'tcp' cannot listen at " + address + ": "));
    }
    CHECK(Invitation(StreamMesh("127.0.0.1").invitation()).at.host == "127.0.0.1");
}
