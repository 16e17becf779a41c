// Making the connections: strangers, members in trouble, and members that do not come.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/transfer.hpp"
#include "runtime/transport/streams/mesh.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

struct Invitation {
    Invitation(Endpoint at, std::string key) : at(std::move(at)), key(std::move(key)) {}
    explicit Invitation(const std::string& text) {
        const MeshAddress address = MeshAddress::decode(text);
        at = {address.nics.at(0).address, address.port};
        key = address.key;
    }
    Endpoint at;
    std::string key;
};

// A rank that the test connects by hand.
Socket come_as(std::uint32_t rank, std::uint32_t world, const Invitation& host) {
    return dial({.to = host.at, .secret = host.key, .rank = rank, .world_size = world}, for_seconds(10));
}

// Returns fewer bytes if the other end closes the connection.
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

// Invitations of ranks that the test connects by hand.
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

// Made before any fork, so that all processes know each rank's listener. Replacing the mesh closes only the
// process's own copy of the listener.
struct Host {
    StreamMesh mesh{"127.0.0.1"};
    Invitation invitation{mesh.invitation()};
};

}  // namespace

TEST_CASE("a rank that does not come is named when time is over, whatever strangers do") {
    Host host;
    Processes processes;
    processes.start([&] {
        return error_of([&] {
            host.mesh.connect(invitations_of(host.mesh, 3), {Clock::now() + in_long_form(700ms, 300ms)});
        });
    });
    processes.start([&]() -> std::string {  // there are bytes to read at any moment
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
                   Catch::Contains("does not answer"));
}

TEST_CASE("a rank that has closed a connection, and is gone, is told of with both reasons") {
    Processes processes;
    auto host = std::make_unique<Doorstep>();
    processes.start([&]() -> std::string {
        const Socket guest = next_guest(host->fd());
        hear_frame(guest);
        return "";
    });
    StreamMesh guest("127.0.0.1");
    MeshAddress invitation = MeshAddress::decode(guest.invitation());
    invitation.port = host->endpoint().port;
    host.reset();  // it lives on in the other process
    const std::vector<std::string> all{invitation.encode(), guest.invitation()};
    CHECK_THAT(error_of([&] { guest.connect(all, patience()); }),
               Catch::Contains("-5: cannot connect to rank 0 at 127.0.0.1:") &&
                   Catch::Contains(": it closes connections before it has answered them, then ") &&
                   Catch::Contains("Connection refused"));
    require_success(processes.wait());
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
    host.mesh = StreamMesh("127.0.0.1");  // the listener that the guest was told of is closed
    questions = 0;
    CHECK(error_of([&] { guest.connect(all, {Clock::now() + 1h, bad_news}); }) == "-6: rank 7 was lost");
    CHECK_THAT(error_of([&] { guest.connect(all, for_seconds(10)); }), Catch::Contains("Connection refused"));
}

TEST_CASE("who is no member, or has no place here, is told so") {
    Host host;
    Processes processes;
    processes.start([&] {
        const auto sockets = host.mesh.connect(invitations_of(host.mesh, 2), for_seconds(10));
        return hear(sockets[1].at(0), 5);
    });
    const auto come = [&](std::uint32_t rank, std::uint32_t world, const std::string& key) {
        const Invitation as{host.invitation.at, key};
        try {
            come_as(rank, world, as);
            return std::string("let in");
        } catch (const DialError& error) {
            return std::string(error.what());
        }
    };
    CHECK(come(1, 2, fresh_nonce()) == "it is no member of this job");
    CHECK(come(2, 2, host.invitation.key) == "rank 2 of 2 is not awaited here");
    CHECK(come(1, 3, host.invitation.key) == "rank 1 of 3 is not awaited here");
    put(come_as(1, 2, host.invitation), "hello");
    CHECK(processes.wait()[0].text == "hello");
    StreamMesh guest("127.0.0.1");
    const Doorstep impostor;
    processes.start([&]() -> std::string {
        say(next_guest(impostor.fd()), FrameType::welcome, fresh_nonce());
        return "";
    });
    MeshAddress invitation = MeshAddress::decode(guest.invitation());
    invitation.port = impostor.endpoint().port;
    const std::vector<std::string> all{invitation.encode(), guest.invitation()};
    CHECK_THAT(error_of([&] { guest.connect(all, for_seconds(10)); }),
               Catch::Contains("-5: cannot connect to rank 0 at 127.0.0.1:") &&
                   Catch::Contains("it sent an unexpected message"));
    require_success(processes.wait());
}

TEST_CASE("of two connections of a member the second counts, since it has lost the first") {
    Host host;
    Processes processes;
    processes.start([&] {
        const auto sockets = host.mesh.connect(invitations_of(host.mesh, 3), for_seconds(10));
        return hear(sockets[1].at(0), 6) + hear(sockets[2].at(0), 5);
    });
    const Socket first = come_as(1, 3, host.invitation);
    const Socket second = come_as(1, 3, host.invitation);
    CHECK(hear(first, 1) == "");
    const Socket other = come_as(2, 3, host.invitation);
    put(second, "second");
    put(other, "other");
    CHECK(processes.wait()[0].text == "secondother");
}

TEST_CASE("a host without descriptors says so") {
    Host host;
    Processes processes;
    processes.start([&] {
        // The sanitizers need descriptors when they see a type for the first time.
        StreamMesh rehearsal("127.0.0.1");
        const Socket stranger = come_to(Invitation(rehearsal.invitation()).at);
        error_of([&] { rehearsal.connect(invitations_of(rehearsal, 2), {Clock::now() + 50ms}); });
        const rlimit none{3, 3};
        expect(setrlimit(RLIMIT_NOFILE, &none) == 0, "no more descriptors");
        return error_of([&] { host.mesh.connect(invitations_of(host.mesh, 2), {Clock::now() + 1h}); });
    });
    const Socket member = come_to(host.invitation.at);
    CHECK_THAT(
        processes.wait()[0].text,
        Catch::Contains("-5: rank 0 cannot take all connections: Too many open files (this process may "
                        "have 3: raise the limit, ulimit -n)"));
}

TEST_CASE("only addresses of this host, in numbers, are listened at") {
    for (const std::string address : {"0.0.0.0", "::", "localhost", "203.0.113.7", "fe80::1"}) {
        INFO(address);
        CHECK_THAT(error_of([&] { StreamMesh mesh(address); }),
                   Catch::Contains("-5: provider 'tcp' cannot listen at " + address + ": "));
    }
    CHECK(Invitation(StreamMesh("127.0.0.1").invitation()).at.host == "127.0.0.1");
}
