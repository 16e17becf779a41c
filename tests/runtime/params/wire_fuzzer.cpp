// The parser of the parameter service's messages on arbitrary bytes. Entry of libFuzzer (clang++
// -fsanitize=fuzzer,address with runtime/params/protocol/*.cpp, runtime/transport/net/frame.cpp); the unit
// tests call it with seeded bytes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/params/protocol/node.hpp"
#include "runtime/params/protocol/wire.hpp"
#include "runtime/transport/net/frame.hpp"

using namespace hocket::params;

namespace {

struct Nothing final : Arithmetic {
    Value sum(Chunk, const std::vector<Value>& parts) override { return parts[0]; }
    Value updated(Chunk, Clock, const Value& weights, const std::vector<Value>&,
                  const std::vector<Worker>&) override {
        return weights;
    }
};

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

// An accepted message encodes to the same bytes again, and a node survives it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const Bounds bounds{.workers = 5, .chunks = 3};
    try {
        const Message message = decode(bytes, bounds);
        require(encode(message) == bytes);
        static Nothing nothing;
        Node node(1, bounds.chunks, nothing, 0);
        node.push(0, 0, nullptr);
        node.pull(2, 7);
        for (const Worker from : {the_server, Worker{2}}) node.receive(from, message);
    } catch (const hocket::transport::ProtocolError&) {
    }
    return 0;
}
