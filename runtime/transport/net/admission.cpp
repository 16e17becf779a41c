#include "runtime/transport/net/admission.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/transport/net/texts.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds handshake_time = 5s, breathing_time = 100ms;
constexpr std::size_t max_lines = 16, max_examples = 8;  // limits on log texts that strangers can cause

}  // namespace

Admission::Admission(SocketLoop& loop, int listener, AdmissionTerms terms)
    : loop_(loop), listener_(listener), terms_(std::move(terms)) {
    open();
}

Admission::~Admission() {
    while (!strangers_.empty()) part_with(strangers_.front());
    pause_ ? loop_.cancel(*pause_) : loop_.forget(listener_);
    if (turned_away_ > max_lines && !terms_.is_quiet)
        log_line("hocket: {} turned away {} more connections", terms_.host, turned_away_ - max_lines);
}

void Admission::open() {
    pause_.reset();
    loop_.watch(listener_, EPOLLIN, *this);
}

// Accepts few connections at a time, so that those accepted earlier have time to send.
void Admission::ready(std::uint32_t) {
    for (std::size_t i = 0; i < std::max<std::size_t>(most_strangers_ / 4, 1); ++i) {
        std::string from;
        Socket socket = accept_from(listener_, from);
        if (!socket.is_open()) {
            if (is_shortage(errno)) make_do_without(errno);
            return;
        }
        receive_next(std::move(socket), std::move(from));
    }
}

void Admission::receive_next(Socket socket, std::string from) {
    if (strangers_.size() >= most_strangers_)
        drop(strangers_.front(),
             fmt::format("{} others came before it had proved that it knows the secret", most_strangers_));
    lacks_descriptors_ = false;
    Stranger& stranger = strangers_.emplace_back(*this);
    stranger.self = std::prev(strangers_.end());
    stranger.known.socket = std::move(socket);
    stranger.known.from = std::move(from);
    give_time(stranger);
    loop_.watch(stranger.known.socket.fd(), EPOLLIN, stranger);
}

void Admission::give_time(Stranger& stranger) {
    if (stranger.deadline) loop_.cancel(*stranger.deadline);
    stranger.deadline = loop_.at(Clock::now() + handshake_time, [this, &stranger] {
        stranger.deadline.reset();
        drop(stranger, fmt::format("it did not prove within {} that it knows the secret",
                                   seconds_text(handshake_time)));
    });
}

void Admission::begin_again() {
    for (Stranger& stranger : strangers_) give_time(stranger);
}

// The listener stays readable, so the loop would spin without a pause. During the pause, guests that know the
// secret can send their proof: otherwise, of two that can only be accepted one at a time, each would be
// dropped for the other, for ever.
void Admission::make_do_without(int error) {
    shortage_ = advised_text(error);
    lacks_descriptors_ = strangers_.empty() && is_lack_of_descriptors(error);
    if (!strangers_.empty() && Clock::now() - strangers_.front().came >= breathing_time)
        drop(strangers_.front(), fmt::format("no more connections can be opened: {}", shortage_));
    loop_.forget(listener_);
    pause_ = loop_.at(Clock::now() + breathing_time, [this] { open(); });
}

void Admission::listen_to(Stranger& stranger) {
    try {
        while (const auto frame = take_frame(stranger.known.socket, stranger.parser))
            if (!take(stranger, *frame)) return;
    } catch (const ProtocolError& error) {
        turn_away(stranger, error.what());
    } catch (const HungUp&) {
        const bool is_newcomer = !stranger.challenge.empty() &&
                                 stranger.known.hello.rank == rank_of_newcomers;  // or claims to be one
        drop(stranger, is_newcomer
                           ? "a new process has given up, or ended, before anybody looked who had come"
                           : "it closed the connection before it had proved that it knows the secret");
    }
}

// Handles a frame. Returns false if the connection is no longer a stranger's.
bool Admission::take(Stranger& stranger, const Frame& frame) {
    if (!stranger.challenge.empty()) {
        judge(stranger, frame);
        return false;
    }
    if (frame.type != FrameType::hello) throw ProtocolError("it did not begin with a hello");
    stranger.known.hello = decode_hello(frame.payload);
    const std::uint32_t offered = stranger.known.hello.ciphers;
    if (terms_.encrypts != (offered != 0)) {
        const auto text = [this](const char* host, const char* guest) {
            return fmt::format("HOCKET_ENCRYPTION is {} {} and {} {}; set it alike in all processes of a job",
                               terms_.encrypts ? "on" : "off", host, terms_.encrypts ? "off" : "on", guest);
        };
        tell(stranger, text("there", "here"));
        drop(stranger, text("here", "there"));
        return false;
    }
    if (terms_.encrypts) {
        stranger.own = fresh_key_halves();
        stranger.cipher = best_cipher(offered);
        if (stranger.cipher == Cipher::none) throw ProtocolError("it offered no cipher that is known here");
    }
    stranger.challenge =
        encode_challenge(terms_.encrypts ? stranger.own.shown : fresh_nonce(), stranger.cipher);
    put(stranger.known.socket, encode_frame(FrameType::challenge, stranger.challenge));
    return true;
}

void Admission::judge(Stranger& stranger, const Frame& frame) {
    if (frame.type != FrameType::proof) throw ProtocolError("it did not answer the challenge");
    const Hello& hello = stranger.known.hello;
    if (!same_proof(frame.payload, make_proof(terms_.secret, Side::guest, hello, stranger.challenge)))
        return turn_away(stranger, terms_.wrong_secret);
    if (const std::string why = terms_.refuse ? terms_.refuse(hello) : ""; !why.empty()) {
        if (hello.rank != rank_of_newcomers) return turn_away(stranger, why);
        // The guest knows the secret, is told why, and may come again elsewhere, so nothing is logged.
        tell(stranger, why);
        part_with(stranger);
        return;
    }
    put(stranger.known.socket,
        encode_frame(FrameType::welcome, make_proof(terms_.secret, Side::host, hello, stranger.challenge)));
    if (terms_.encrypts)
        seal(stranger.known.socket, Side::host, stranger.cipher, terms_.secret, stranger.own, hello,
             stranger.challenge);
    terms_.admit(part_with(stranger));
}

void Admission::refuse_all(const std::string& why) {
    for (; !strangers_.empty(); part_with(strangers_.front())) tell(strangers_.front(), why);
}

void Admission::tell(Stranger& stranger, const std::string& why) {
    const Socket& socket = stranger.known.socket;
    put(socket, encode_frame(FrameType::refused, why));
    shutdown(socket.fd(), SHUT_WR);
    char rest[4096];  // closing with unread bytes would reset the connection, and the refusal would be lost
    receive_some(socket, rest);
}

void Admission::turn_away(Stranger& stranger, const std::string& why) {
    tell(stranger, why);
    drop(stranger, why);
}

// Drops a stranger without an answer: if it was a slow guest, it should come again.
void Admission::drop(Stranger& stranger, const std::string& why) {
    const std::string text = fmt::format("{}: {}", part_with(stranger).from, printable(why));
    if (++turned_away_ <= max_lines && !terms_.is_quiet)
        log_line("hocket: {} turned away a connection from {}{}", terms_.host, text,
                 turned_away_ == max_lines ? " (further ones are only counted)" : "");
    if (examples_.size() < max_examples) examples_.push_back(text);
}

Admitted Admission::part_with(Stranger& stranger) {
    if (stranger.deadline) loop_.cancel(*stranger.deadline);
    loop_.forget(stranger.known.socket.fd());
    Admitted known = std::move(stranger.known);
    strangers_.erase(stranger.self);
    return known;
}

void Admission::require_descriptors() const {
    if (lacks_descriptors_)
        throw Error(Status::transport,
                    fmt::format("{} cannot take all connections: {}", terms_.host, shortage_));
}

std::string Admission::troubles() const {
    std::string text;
    if (!shortage_.empty())
        text += fmt::format("\n  {} could not take all connections: {}", terms_.host, shortage_);
    for (const std::string& line : examples_) text += "\n  turned away meanwhile: " + line;
    if (turned_away_ > examples_.size())
        text += fmt::format("\n  and {} more", turned_away_ - examples_.size());
    return text;
}

}  // namespace hocket::transport
