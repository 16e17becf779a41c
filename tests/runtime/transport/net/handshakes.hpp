// Ends of handshakes whose frames a test makes itself, and a host to connect to.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/transfer.hpp"
#include "tests/support/expect.hpp"
#include "tests/support/long_enough.hpp"

namespace hocket::test {

inline const std::string job_secret = "a secret of the tests";

inline transport::Patience patience() {
    return {transport::Clock::now() + long_enough};
}

inline transport::Socket come_to(const transport::Endpoint& host) {
    std::string why;
    transport::Socket socket = transport::connect_to(host, patience(), why);
    expect(socket.is_open(), "a connection: " + why);
    return socket;
}

inline transport::Socket next_guest(int listener) {
    pollfd entry{listener, POLLIN, 0};
    expect(transport::poll_until({&entry, 1}, patience().deadline) == 1, "somebody to come");
    std::string from;
    return transport::accept_from(listener, from);
}

inline void say(const transport::Socket& socket, transport::FrameType type, std::string_view payload) {
    expect(transport::put(socket, transport::encode_frame(type, payload)), "a frame to be sent");
}

// Throws HungUp at the connection's end.
inline transport::Frame hear_frame(const transport::Socket& socket) {
    transport::FrameParser parser(transport::max_refusal_payload);
    for (;;) {
        if (auto frame = transport::take_frame(socket, parser)) return *frame;
        pollfd entry{socket.fd(), POLLIN, 0};
        expect(patience().wait({&entry, 1}), "an answer or an end");
    }
}

// The host's side, which proves that it knows `known`.
inline transport::Hello welcome(const transport::Socket& guest, const std::string& secret,
                                const std::string& known) {
    using namespace transport;
    const Hello hello = decode_hello(hear_frame(guest).payload);
    const std::string nonce = fresh_nonce();
    say(guest, FrameType::challenge, nonce);
    expect(hear_frame(guest).payload == make_proof(secret, Side::guest, hello, nonce), "the guest's proof");
    say(guest, FrameType::welcome, make_proof(known, Side::host, hello, nonce));
    return hello;
}

// A listener of the loopback interface, at a port that the kernel chooses.
class Doorstep {
  public:
    Doorstep() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        auto* where = reinterpret_cast<sockaddr*>(&at);
        expect(bind(listener_.fd(), where, size) == 0 && listen(listener_.fd(), SOMAXCONN) == 0 &&
                   getsockname(listener_.fd(), where, &size) == 0,
               "a listener");
        endpoint_.port = ntohs(at.sin_port);
    }
    int fd() const { return listener_.fd(); }
    const transport::Endpoint& endpoint() const { return endpoint_; }

  private:
    transport::Socket listener_;
    transport::Endpoint endpoint_{"127.0.0.1", 0};
};

// Admits every peer that knows the secret, except rank 13.
class AdmittingHost {
  public:
    explicit AdmittingHost(int listener, transport::SocketLoop::Way way = transport::SocketLoop::Way::epoll)
        : loop(way),
          admission(loop, listener,
                    {"the test", job_secret, "wrong secret",
                     [this](transport::Admitted guest) { guests.push_back(std::move(guest)); },
                     [](const transport::Hello& hello) -> std::string {
                         return hello.rank == 13 ? "nobody may be rank 13" : "";
                     }}) {}

    void await(std::size_t count) {
        const auto patience = test::patience();
        while (guests.size() < count) {
            expect(!patience.is_over(), "guests");
            loop.turn(patience.next_look());
        }
    }
    // Waits until there are bytes to read, or the end.
    void await(const transport::Socket& stranger) {
        const auto patience = test::patience();
        pollfd entry{stranger.fd(), POLLIN, 0};
        while (!patience.look({&entry, 1}, std::chrono::milliseconds(0))) {
            expect(!patience.is_over(), "an answer");
            loop.turn(transport::Clock::now() + std::chrono::milliseconds(1));
        }
    }

    std::vector<transport::Admitted> guests;
    transport::SocketLoop loop;
    transport::Admission admission;
};

}  // namespace hocket::test
