// The parsers of frames on arbitrary bytes. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with
// runtime/transport/net/frame.cpp, handshake.cpp); the unit tests call it with seeded bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/handshake.hpp"

using namespace hocket::transport;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

// Frames, then the message of the ProtocolError that ended them, if one did.
std::vector<std::string> parse(std::string_view bytes, std::size_t piece, std::size_t limit) {
    FrameParser parser(limit);
    std::vector<std::string> seen;
    try {
        while (!bytes.empty()) {
            const std::string_view now = bytes.substr(0, piece);
            bytes.remove_prefix(now.size());
            parser.feed(now);
            while (const auto frame = parser.next()) {
                require(frame->payload.size() <= limit);
                seen.push_back(encode_frame(frame->type, frame->payload));
            }
        }
    } catch (const ProtocolError& error) {
        seen.push_back(error.what());
    }
    return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const auto whole = parse(bytes, std::max<std::size_t>(size, 1), max_hello_size);
    require(parse(bytes, 1, max_hello_size) == whole);  // the cuts between the bytes do not matter
    require(parse(bytes, 7, max_hello_size) == whole);
    for (const std::string& frame : whole) {
        if (frame.size() < frame_header_size) continue;
        try {
            const Hello hello = decode_hello(std::string_view(frame).substr(frame_header_size));
            require(encode_hello(hello) == frame.substr(frame_header_size));
        } catch (const ProtocolError&) {
        }
    }
    return 0;
}
