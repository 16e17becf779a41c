#include "runtime/transport/net/frame.hpp"

#include <cstdint>
#include <random>

#include "runtime/transport/net/handshake.hpp"
#include "runtime/transport/net/texts.hpp"
#include "tests/support/test.hpp"

using namespace hocket::transport;
using Catch::Contains;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::string error_of(std::string bytes, std::size_t limit = 128) {
    FrameParser parser(limit);
    parser.feed(bytes);
    try {
        while (parser.next()) {
        }
    } catch (const ProtocolError& error) {
        return error.what();
    }
    return "";
}

std::string with(std::string frame, std::size_t position, char value) {
    frame[position] = value;
    return frame;
}

}  // namespace

TEST_CASE("frames come out as they went in, however the bytes are cut") {
    const std::string bytes = encode_frame(FrameType::hello, "abc") + encode_frame(FrameType::heartbeat, "") +
                              encode_frame(FrameType::gather, std::string(100, '\0'));
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
        FrameParser parser(128);
        std::vector<Frame> frames;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            parser.feed(std::string_view(bytes).substr(at, piece));
            while (auto frame = parser.next()) frames.push_back(*frame);
        }
        REQUIRE(frames.size() == 3);
        CHECK((frames[0].type == FrameType::hello && frames[0].payload == "abc"));
        CHECK((frames[1].type == FrameType::heartbeat && frames[1].payload.empty()));
        CHECK((frames[2].type == FrameType::gather && frames[2].payload == std::string(100, '\0')));
    }
}

TEST_CASE("what is no frame is refused as early as it shows") {
    const std::string frame = encode_frame(FrameType::hello, "abc");
    CHECK_THAT(error_of("G"), Contains("does not speak"));
    CHECK_THAT(error_of("HKT!"), Contains("does not speak"));
    CHECK(error_of("HKT") == "");
    CHECK_THAT(error_of(with(frame, 4, 9)), Contains("version 9") && Contains("version 6"));
    CHECK_THAT(error_of(with(frame, 5, 0)), Contains("unknown type 0"));
    CHECK_THAT(error_of(with(frame, 5, 99)), Contains("unknown type 99"));
    CHECK_THAT(error_of(with(frame, 7, 1)), Contains("unknown type"));
    // The header alone is enough: the reader neither waits for the announced 4 GiB nor allocates them.
    CHECK_THAT(error_of(with(frame, 11, '\xff').substr(0, frame_header_size)), Contains("at most 128"));
    CHECK(error_of(encode_frame(FrameType::hello, std::string(128, 'x'))) == "");
    CHECK_THAT(error_of(encode_frame(FrameType::hello, std::string(129, 'x'))), Contains("129 bytes"));
}

TEST_CASE("payloads of the wrong size are refused") {
    const Hello hello{3, 8, std::string(nonce_size, 'n')};
    const std::string payload = encode_hello(hello);
    CHECK(decode_hello(payload).rank == 3);
    CHECK(decode_hello(payload).world_size == 8);
    CHECK(decode_hello(payload).nonce == hello.nonce);
    CHECK_THROWS_AS(decode_hello(payload.substr(1)), ProtocolError);
    CHECK(decode_hello(payload).identity == "");
    CHECK(decode_hello(payload + "x").identity == "x");
    CHECK_THROWS_AS(decode_hello(payload + std::string(max_identity_size + 1, 'x')), ProtocolError);
    CHECK_THROWS_AS(decode_hello(""), ProtocolError);
}

TEST_CASE("a proof holds for its secret, side, nonces, rank, world size and identity only") {
    const Hello hello{3, 8, std::string(nonce_size, 'g')};
    const std::string nonce(nonce_size, 'h');
    const std::string proof = make_proof("secret", Side::guest, hello, nonce);
    CHECK(proof.size() == proof_size);
    CHECK(same_proof(proof, make_proof("secret", Side::guest, hello, nonce)));
    CHECK(!same_proof(proof, make_proof("secret!", Side::guest, hello, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::host, hello, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::guest, {4, 8, hello.nonce}, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::guest, {3, 9, hello.nonce}, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::guest, {3, 8, nonce}, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::guest, {3, 8, hello.nonce, "x"}, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::guest, {3, 8, hello.nonce, "", 2}, nonce)));
    CHECK(!same_proof(proof, make_proof("secret", Side::guest, hello, hello.nonce)));
    CHECK(!same_proof(proof, proof.substr(1)));
    CHECK(fresh_nonce() != fresh_nonce());
    CHECK(printable("a\x1b[31m\n") == "a?[31m?");
}

// The expected values are from Python's hmac module.
TEST_CASE("a proof is HMAC-SHA256, of short secrets and of such as are longer than a block") {
    const Hello hello{3, 8, std::string(nonce_size, 'g'), "x"};
    const auto hex = [&](const std::string& secret) {
        std::string text;
        for (const char byte : make_proof(secret, Side::guest, hello, std::string(nonce_size, 'h')))
            text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
        return text;
    };
    CHECK(hex("secret") == "9bb73b03ee98eabcaa96c300d91b2c98092c79d934afcce515a8a4977f9953bc");
    CHECK(hex(std::string(100, 's')) == "5e5f1d585aa25b6c80f2a147da147f33ec672a2660a431946c890ed7cf42d0e5");
}

TEST_CASE("arbitrary bytes break nothing (seeded)") {
    std::mt19937 random(20240607);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int round = 0; round < 20000; ++round) {
        std::string bytes;
        for (std::size_t frames = below(4); frames > 0; --frames)
            bytes += encode_frame(static_cast<FrameType>(below(20)),
                                  std::string(below(140), static_cast<char>(random())));
        for (std::size_t noise = below(3); noise > 0 && !bytes.empty(); --noise)
            bytes[below(bytes.size())] = static_cast<char>(random());
        if (below(2)) bytes.resize(below(bytes.size() + 1));
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) ==
                0);
    }
}
