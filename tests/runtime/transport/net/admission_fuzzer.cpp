// A host whose stranger is the fuzzer, over a real connection: handshakes that are right, mutated, cut,
// forged or overheard, in pieces of any size. Only peers that prove that they know the secret are admitted,
// and others are sent nothing that depends on it. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with
// runtime/transport/net/*.cpp); a unit test calls it with seeded bytes.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/transport/net/transfer.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket::test;
using namespace hocket::transport;

namespace {

std::string overheard_proof(proof_size, 'p');  // a right one, of another connection

class Game {
  public:
    Game(AdmittingHost& host, const Endpoint& at, const std::uint8_t* data, std::size_t size)
        : host_(host), input_(data, size), socket_(come_to(at)) {}

    void play() {
        const std::size_t before = host_.guests.size();
        say_in_pieces(spoiled(encode_frame(FrameType::hello, encode_hello(hello_)), false));
        if (input_.below(4) > 0) listen();
        say_in_pieces(proof());
        shutdown(socket_.fd(), SHUT_WR);
        const bool is_let_in = end();
        require(host_.guests.size() == before + (is_let_in ? 1 : 0));
        require(is_let_in == is_right_);
        host_.guests.clear();
    }

  private:
    // Spoils the bytes, perhaps.
    std::string spoiled(std::string bytes, bool may_go_on) {
        const std::string whole = bytes;
        switch (input_.below(8)) {
            case 0:
                bytes[input_.below(bytes.size())] ^= static_cast<char>(1 << input_.below(8));
                break;
            case 1:
                bytes.resize(input_.below(bytes.size()));
                break;
            case 2:
                for (char& c : bytes) c = static_cast<char>(input_.byte());
                break;
            case 3:
                bytes += bytes;
                break;
            default:
                break;
        }
        is_right_ &= bytes == whole || (may_go_on && bytes.starts_with(whole));
        return bytes;
    }

    std::string proof() {
        const std::size_t way = input_.below(8);
        is_right_ &= way > 3 && !nonce_.empty();
        std::string text = make_proof(way == 0 ? "a guess" : job_secret, way == 1 ? Side::host : Side::guest,
                                      way == 2 ? Hello{2, 2, hello_.nonce} : hello_, nonce_);
        if (way == 3) text = overheard_proof;
        if (is_right_) overheard_proof = text;
        return spoiled(encode_frame(FrameType::proof, text), true);
    }

    void say_in_pieces(std::string_view bytes) {
        while (!bytes.empty()) {
            const std::size_t piece = std::min(bytes.size(), 1 + input_.below(400));
            put(socket_, bytes.substr(0, piece));
            bytes.remove_prefix(piece);
            if (input_.below(2)) host_.loop.turn(Clock::now());
        }
    }

    // Waits until the challenge has arrived, or it is clear that none will.
    void listen() {
        if (!is_right_) return host_.loop.turn(Clock::now());
        host_.await(socket_);
        nonce_ = hear_frame(socket_).payload;
        require(nonce_.size() == nonce_size);
    }

    // Returns true if it ends with a welcome.
    bool end() {
        for (bool is_welcome = false;;) {
            host_.await(socket_);
            try {
                while (const auto frame = take_frame(socket_, parser_)) {
                    if (frame->type == FrameType::welcome) {
                        require(frame->payload == make_proof(job_secret, Side::host, hello_, nonce_));
                        host_.guests.back().socket.close();
                        is_welcome = true;
                    } else {
                        require(frame->type == FrameType::challenge || frame->type == FrameType::refused);
                    }
                }
            } catch (const HungUp&) {
                return is_welcome;
            }
        }
    }

    AdmittingHost& host_;
    FuzzInput input_;
    const Socket socket_;
    FrameParser parser_{max_refusal_payload};
    const Hello hello_{1, 2, fresh_nonce(), "a guest"};
    std::string nonce_;
    bool is_right_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Doorstep door;
    static AdmittingHost host(door.fd());
    Game(host, door.endpoint(), data, size).play();
    return 0;
}
