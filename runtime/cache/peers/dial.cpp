#include "runtime/cache/peers/dial.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/cache/peers/protocol.hpp"
#include "runtime/error.hpp"
#include "runtime/net/frame.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// The connection is of no use, but another may be.
struct DialAgain {};

class Call {
  public:
    Call(const PeerDial& dial, const Patience& patience, Socket socket)
        : dial_(dial), patience_(patience), socket_(std::move(socket)) {}

    Socket prove() {
        const Hello hello{dial_.rank, dial_.world_size, fresh_nonce()};
        const std::string key = peer_handshake_key(dial_.secret);
        say(FrameType::hello, encode_hello(hello));
        const std::string challenge = expect(FrameType::challenge);
        if (challenge.size() != nonce_size) throw ProtocolError("it sent a challenge of the wrong size");
        say(FrameType::proof, make_proof(key, Side::guest, hello, challenge) + dial_.identity);
        if (!same_proof(expect(FrameType::welcome), make_proof(key, Side::host, hello, challenge)))
            throw Error(Status::peer_lost,
                        "what answers there does not know this job's secret; is it another job's port, or "
                        "does HOCKET_SECRET differ?");
        return std::move(socket_);
    }

  private:
    void say(FrameType type, std::string_view payload) { put(socket_, encode_frame(type, payload)); }

    std::string expect(FrameType type) {
        const Frame frame = next_frame();
        if (frame.type == FrameType::refused)
            throw Error(Status::peer_lost, "it refused the connection: " + printable(frame.payload));
        if (frame.type != type) throw ProtocolError("it sent an unexpected message");
        return frame.payload;
    }

    // Nothing follows a frame before it is answered, nor the last one before there is a question.
    Frame next_frame() {
        for (;;) {
            if (const auto frame = parser_.next()) return *frame;
            pollfd entry{socket_.fd(), POLLIN, 0};
            if (!patience_.wait({&entry, 1}))
                throw Error(Status::peer_lost, "it accepts connections but does not answer; does it hang?");
            char bytes[1024];
            const ssize_t n = recv(socket_.fd(), bytes, sizeof bytes, 0);
            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) throw DialAgain();
            if (n > 0) parser_.feed({bytes, static_cast<std::size_t>(n)});
        }
    }

    const PeerDial& dial_;
    const Patience& patience_;
    Socket socket_;
    FrameParser parser_{max_refusal_payload};
};

}  // namespace

Socket dial_peer(const PeerDial& dial, const Patience& patience) {
    for (auto pause = 10ms;; pause = std::min(2 * pause, 200ms)) {
        std::string why = "time is over";
        Socket socket = connect_to(dial.to, patience, why);
        if (!socket.is_open())
            throw Error(Status::peer_lost, fmt::format("{}; is its process running, and is there a way to it "
                                                       "(a firewall, another network)?",
                                                       why));
        try {
            return Call(dial, patience, std::move(socket)).prove();
        } catch (const ProtocolError& error) {
            throw Error(Status::peer_lost,
                        fmt::format("what answers there is no peer of this job: {}; is it another program's "
                                    "port?",
                                    printable(error.what())));
        } catch (const DialAgain&) {
            if (patience.is_over())
                throw Error(Status::peer_lost, "it closes connections before it has answered them");
        }
        patience.look({}, pause);
    }
}

}  // namespace hocket::transport
