#include "runtime/transport/streams/mesh_address.hpp"

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/handshake.hpp"

namespace hocket::transport {
namespace {

constexpr std::uint32_t most_ports = 1 << 16;

}  // namespace

std::string MeshAddress::encode() const {
    PayloadWriter writer;
    writer.u32(static_cast<std::uint32_t>(port)).bytes(key);
    write(writer, nics);
    return writer.text();
}

MeshAddress MeshAddress::decode(std::string_view text) {
    PayloadReader reader(text);
    MeshAddress address;
    const std::uint32_t port = reader.u32();
    if (port >= most_ports) throw ProtocolError("it has a port that is none");
    address.port = static_cast<int>(port);
    address.key = reader.bytes(nonce_size);
    address.nics = read_nics(reader);
    reader.finish();
    if (address.nics.empty()) throw ProtocolError("it has no address");
    return address;
}

std::string MeshAddress::text() const {
    std::string text;
    for (const Nic& nic : nics) text += (text.empty() ? "" : ", ") + Endpoint{nic.address, port}.text();
    return text;
}

}  // namespace hocket::transport
