#include "runtime/transport/net/dial.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/transport/net/texts.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;
using Kind = DialError::Kind;

// Time is over, and the host has not answered.
struct Silent {};

// One attempt to connect.
class Call {
  public:
    Call(const Dial& call, const Patience& patience, Socket& socket)
        : call_(call), patience_(patience), socket_(socket) {}

    // Also throws HungUp, and Silent.
    void prove() {
        const std::uint32_t ciphers = call_.encrypts ? known_ciphers() : 0;
        const KeyHalves own = call_.encrypts ? fresh_key_halves() : KeyHalves{};
        const Hello hello{call_.rank, call_.world_size, call_.encrypts ? own.shown : fresh_nonce(),
                          call_.identity, ciphers};
        say(FrameType::hello, encode_hello(hello));
        const std::string challenge = expect(FrameType::challenge);
        const Cipher cipher = decode_challenge(challenge, hello).cipher;
        say(FrameType::proof, make_proof(call_.secret, Side::guest, hello, challenge));
        if (!same_proof(expect(FrameType::welcome), make_proof(call_.secret, Side::host, hello, challenge)))
            throw DialError(Kind::impostor, "it does not know this job's secret");
        if (call_.encrypts) seal(socket_, Side::guest, cipher, call_.secret, own, hello, challenge);
    }

  private:
    // If the text cannot be sent, no answer comes either, so put()'s result does not matter.
    void say(FrameType type, std::string_view payload) { put(socket_, encode_frame(type, payload)); }

    std::string expect(FrameType type) {
        std::optional<Frame> frame;
        while (!(frame = take_frame(socket_, parser_))) {
            pollfd entry{socket_.fd(), POLLIN, 0};
            if (!patience_.wait({&entry, 1})) throw Silent();
        }
        if (frame->type == FrameType::refused) throw DialError(Kind::refused, printable(frame->payload));
        if (frame->type != type) throw ProtocolError("it sent an unexpected message");
        return std::move(frame->payload);
    }

    const Dial& call_;
    const Patience& patience_;
    Socket& socket_;
    FrameParser parser_{max_refusal_payload};
};

// Makes one attempt. Returns why it failed, if another one may be made; "" if it succeeded.
std::string attempt(const Dial& call, const Patience& patience, Socket& socket) try {
    Call(call, patience, socket).prove();
    return "";
} catch (const HungUp&) {
    return "it closes connections before it has answered them";
} catch (const Silent&) {
    return "it accepts connections but does not answer";
} catch (const ProtocolError& error) {
    throw DialError(Kind::impostor, printable(error.what()));
}

// As connect_to() names it.
std::string address_of(const std::optional<Endpoint>& reached, const Endpoint& asked) {
    return !reached || reached->host == asked.host ? "" : reached->host;
}

}  // namespace

Socket dial(const Dial& call, Patience patience) {
    Reasons reasons;
    bool is_there = false;
    auto gone_by = Clock::time_point::max();
    auto pause = 10ms;
    do {
        Socket socket =
            call.connect ? call.connect(patience, reasons) : connect_to(call.to, patience, reasons);
        if (socket.is_open()) {
            if (!std::exchange(is_there, true)) patience.deadline += call.last_word;
            gone_by = Clock::time_point::max();
            const auto reached = connected_to(socket);
            const std::string why = attempt(call, patience, socket);
            if (why.empty()) return socket;
            reasons.add(address_of(reached, call.to), why);
            if (call.note) call.note(why);
        } else {
            gone_by = std::min(gone_by, Clock::now() + call.gone_for);
            if (Clock::now() >= gone_by) break;
        }
        patience.look({}, pause);
        pause = std::min(2 * pause, 200ms);
    } while (!patience.is_over());
    throw DialError(is_there && Clock::now() < gone_by ? Kind::silent : Kind::unreachable,
                    reasons.are_known() ? reasons.text() : "time is over");
}

}  // namespace hocket::transport
