#include "runtime/cache/peers/reception.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "runtime/cache/peers/protocol.hpp"
#include "runtime/log.hpp"
#include "runtime/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto handshake_time = 5s;
constexpr auto breathing_time = 100ms;
constexpr int accepted_a_turn = 16;
constexpr int max_lines = 16;  // of a log that strangers can write

}  // namespace

PeerReception::PeerReception(PeerLoop& loop, Socket listener, std::string secret,
                             std::function<void(Admitted)> admit)
    : loop_(loop),
      listener_(std::move(listener)),
      key_(peer_handshake_key(secret)),
      admit_(std::move(admit)),
      most_strangers_(transport::most_strangers()) {}

PeerReception::~PeerReception() {
    while (!strangers_.empty()) part_with(strangers_.front());
}

void PeerReception::open() {
    loop_.watch(listener_.fd(), EPOLLIN, *this);
}

void PeerReception::ready(std::uint32_t) {
    for (int i = 0; i < accepted_a_turn; ++i) {
        std::string from;
        Socket socket = accept_from(listener_.fd(), from);
        if (!socket.is_open()) {
            if (is_shortage(errno)) make_do_without();
            return;
        }
        receive_next(std::move(socket), std::move(from));
    }
}

void PeerReception::receive_next(Socket socket, std::string from) {
    if (strangers_.size() >= most_strangers_)
        drop(strangers_.front(),
             fmt::format("{} others came before it had proved that it knows the secret", most_strangers_));
    Stranger& stranger = strangers_.emplace_back(*this);
    stranger.self = std::prev(strangers_.end());
    stranger.known.socket = std::move(socket);
    stranger.known.from = std::move(from);
    stranger.deadline = loop_.at(Clock::now() + handshake_time, [this, &stranger] {
        stranger.deadline.reset();
        drop(stranger, "it did not prove in time that it knows the secret");
    });
    loop_.watch(stranger.known.socket.fd(), EPOLLIN, stranger);
}

// The listener stays readable: without a pause the loop would spin.
void PeerReception::make_do_without() {
    if (!strangers_.empty())
        drop(strangers_.front(), fmt::format("no more connections can be opened ({}); raise the limit "
                                             "(ulimit -n)",
                                             error_text(errno)));
    loop_.forget(listener_.fd());
    loop_.at(Clock::now() + breathing_time, [this] { open(); });
}

void PeerReception::listen_to(Stranger& stranger) {
    char bytes[1024];
    const ssize_t n = recv(stranger.known.socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return drop(stranger, "it left before it had proved that it knows the secret");
    try {
        stranger.parser.feed({bytes, static_cast<std::size_t>(n)});
        while (const auto frame = stranger.parser.next())
            if (!take(stranger, *frame)) return;
    } catch (const ProtocolError& error) {
        refuse(stranger, error.what());
    }
}

// False: it is a stranger no more.
bool PeerReception::take(Stranger& stranger, const Frame& frame) {
    if (!stranger.nonce.empty()) {
        judge(stranger, frame);
        return false;
    }
    if (frame.type != FrameType::hello) throw ProtocolError("it did not begin with a hello");
    stranger.known.hello = decode_hello(frame.payload);
    stranger.nonce = fresh_nonce();
    stranger.parser.set_limit(proof_size + max_peer_identity);
    put(stranger.known.socket, encode_frame(FrameType::challenge, stranger.nonce));
    return true;
}

void PeerReception::judge(Stranger& stranger, const Frame& frame) {
    if (frame.type != FrameType::proof) throw ProtocolError("it did not answer the challenge");
    const std::string_view payload = frame.payload;
    const Hello& hello = stranger.known.hello;
    if (!same_proof(payload.substr(0, proof_size), make_proof(key_, Side::guest, hello, stranger.nonce)))
        return refuse(stranger, "wrong secret (HOCKET_SECRET must be the same in all processes of a job)");
    stranger.known.identity = payload.substr(proof_size);
    put(stranger.known.socket,
        encode_frame(FrameType::welcome, make_proof(key_, Side::host, hello, stranger.nonce)));
    admit_(part_with(stranger));
}

void PeerReception::refuse(Stranger& stranger, const std::string& why) {
    const Socket& socket = stranger.known.socket;
    put(socket, encode_frame(FrameType::refused, why));
    shutdown(socket.fd(), SHUT_WR);
    char rest[4096];  // closing with unread bytes would reset the connection and lose the refusal
    while (recv(socket.fd(), rest, sizeof rest, MSG_DONTWAIT) < 0 && errno == EINTR) {
    }
    drop(stranger, why);
}

void PeerReception::drop(Stranger& stranger, const std::string& why) {
    log(part_with(stranger).from, why);
}

void PeerReception::log(const std::string& from, const std::string& why) {
    if (++turned_away_ > max_lines) return;
    log_line("hocket: the data cache turned away a connection from {}: {}{}", from, printable(why),
             turned_away_ == max_lines ? " (further ones are not logged)" : "");
}

PeerReception::Admitted PeerReception::part_with(Stranger& stranger) {
    if (stranger.deadline) loop_.cancel(*stranger.deadline);
    loop_.forget(stranger.known.socket.fd());
    Admitted known = std::move(stranger.known);
    strangers_.erase(stranger.self);
    return known;
}

}  // namespace hocket::transport
