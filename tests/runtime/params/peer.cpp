#include "tests/runtime/params/peer.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/params/protocol/wire.hpp"
#include "runtime/params/service/identity.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/transfer.hpp"
#include "tests/support/expect.hpp"
#include "tests/support/long_enough.hpp"

namespace hocket::test {
namespace {

using transport::FrameType;

const std::string secret = "a secret";

void await(int fd, short events) {
    pollfd entry{fd, events, 0};
    expect(transport::poll_until({&entry, 1}, transport::Clock::now() + long_enough) == 1,
           "the other side says nothing, and keeps the connection open");
}

std::string take(const transport::Socket& socket, transport::FrameParser& parser) {
    for (;;) {
        if (auto frame = transport::take_frame(socket, parser)) return std::move(frame->payload);
        await(socket.fd(), POLLIN);
    }
}

transport::Socket admit(int listener) {
    await(listener, POLLIN);
    std::string from;
    transport::Socket socket = transport::accept_from(listener, from);
    transport::FrameParser parser(transport::max_hello_size);
    const transport::Hello hello = transport::decode_hello(take(socket, parser));
    const std::string nonce = transport::fresh_nonce();
    transport::put(socket, transport::encode_frame(FrameType::challenge, nonce));
    take(socket, parser);
    transport::put(
        socket, transport::encode_frame(FrameType::welcome,
                                        transport::make_proof(secret, transport::Side::host, hello, nonce)));
    return socket;
}

}  // namespace

Peer::Peer(const transport::Endpoint& host)
    : socket_(transport::dial({.to = host, .secret = secret, .identity = params::identity(0)},
                              {transport::Clock::now() + long_enough})) {}

Peer::Peer(int listener) : socket_(admit(listener)) {}

// ---- Out -------------------------------------------------------------------------------------------------

void Peer::say(const params::Message& message, std::string_view value, Elements elements) {
    const std::string body = params::encode(message);
    raw({.kind = 2,
         .elements = static_cast<std::uint8_t>(elements),
         .body_bytes = static_cast<std::uint32_t>(body.size()),
         .value_bytes = value.size()},
        body + std::string(value));
}

void Peer::frame(std::uint8_t kind, std::string_view body) {
    raw({.kind = kind, .body_bytes = static_cast<std::uint32_t>(body.size())}, body);
}

void Peer::raw(const Header& header, std::string_view rest) {
    bytes(std::string(reinterpret_cast<const char*>(&header), sizeof header).append(rest));
}

void Peer::bytes(std::string_view bytes) {
    while (!bytes.empty() && socket_.is_open()) {
        const ssize_t sent = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        else if (errno == EAGAIN)
            await(socket_.fd(), POLLOUT);
        else if (errno != EINTR)
            return;
    }
}

bool Peer::can_say(const Json& note) {
    pollfd entry{socket_.fd(), POLLOUT, 0};
    if (transport::poll_until({&entry, 1}, transport::Clock::now() + std::chrono::seconds(1)) != 1)
        return false;
    say(note);
    return true;
}

// ---- In --------------------------------------------------------------------------------------------------

bool Peer::receive() {
    char bytes[65536];
    const ssize_t got = recv(socket_.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) received_.append(bytes, static_cast<std::size_t>(got));
    has_ended_ |= got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    return got > 0;
}

bool Peer::take_in() {
    while (!has_ended_ && receive()) received_.clear();
    return !has_ended_;
}

std::optional<Peer::Frame> Peer::next() {
    for (;;) {
        Frame frame;
        if (received_.size() >= sizeof frame.header) {
            std::memcpy(&frame.header, received_.data(), sizeof frame.header);
            const std::size_t value = frame.header.is_lent ? 0 : frame.header.value_bytes;
            const std::size_t whole = sizeof frame.header + frame.header.body_bytes + value;
            if (received_.size() >= whole) {
                frame.body = received_.substr(sizeof frame.header, frame.header.body_bytes);
                received_.erase(0, whole);
                return frame;
            }
        }
        if (has_ended_) return std::nullopt;
        if (!receive() && !has_ended_) await(socket_.fd(), POLLIN);
    }
}

std::optional<Peer::Json> Peer::note(std::string_view say) {
    while (const auto frame = next()) {
        if (frame->header.kind != 1) continue;
        Json note = Json::parse(frame->body);
        if (note.contains("say") && (say.empty() || note.at("say") == say)) return note;
    }
    return std::nullopt;
}

bool Peer::lend(const params::Memory& memory, const params::Memory::Lease& lease) {
    say(Json{{"memory", "offered"},
             {"process", memory.name().process},
             {"descriptor", memory.name().descriptor},
             {"bytes", memory.name().bytes},
             {"token", memory.name().token},
             {"lease_place", lease.place()},
             {"lease", lease.number()}});
    while (const auto frame = next())
        if (frame->header.kind == 1 && Json::parse(frame->body).value("memory", "") == "taken") return true;
    return false;
}

std::optional<params::Announcement> Peer::announcement(std::size_t chunks) {
    while (const auto frame = next()) {
        if (frame->header.kind != 2) continue;
        const params::Message message = params::decode(frame->body, {.workers = 1 << 16, .chunks = chunks});
        if (const auto* const told = std::get_if<params::Announcement>(&message)) return *told;
    }
    return std::nullopt;
}

bool Peer::is_closed() {
    while (!has_ended_) {
        received_.clear();
        if (!receive() && !has_ended_) await(socket_.fd(), POLLIN);
    }
    return true;
}

}  // namespace hocket::test
