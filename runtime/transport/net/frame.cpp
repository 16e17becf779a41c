#include "runtime/transport/net/frame.hpp"

#include <fmt/format.h>

namespace hocket::transport {
namespace {

constexpr std::string_view magic = "HKTB";
constexpr std::uint8_t version = 6;  // increase it with every change of FrameType or of a payload

std::uint32_t read_u32(std::string_view bytes) {
    std::uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
    return value;
}

void append_u32(std::string& out, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

std::string encode_frame(FrameType type, std::string_view payload) {
    std::string frame(magic);
    frame.push_back(static_cast<char>(version));
    frame.push_back(static_cast<char>(type));
    frame.append(2, '\0');
    append_u32(frame, static_cast<std::uint32_t>(payload.size()));
    return frame.append(payload);
}

void FrameParser::feed(std::string_view bytes) {
    if (consumed_ > 0) {
        buffer_.erase(0, consumed_);
        consumed_ = 0;
    }
    buffer_.append(bytes);
}

std::optional<Frame> FrameParser::next() {
    const std::string_view bytes = std::string_view(buffer_).substr(consumed_);
    const std::size_t known = std::min(bytes.size(), magic.size());
    if (bytes.substr(0, known) != magic.substr(0, known))
        throw ProtocolError("it does not speak Hocket's protocol");
    if (bytes.size() < frame_header_size) return std::nullopt;
    const auto its_version = static_cast<std::uint8_t>(bytes[4]);
    if (its_version != version)
        throw ProtocolError(
            fmt::format("it speaks version {} of the protocol, this rank version {}; are all "
                        "ranks running the same Hocket?",
                        its_version, version));
    const auto type = static_cast<std::uint8_t>(bytes[5]);
    if (type == 0 || type > static_cast<std::uint8_t>(FrameType::last_) || bytes[6] != 0 || bytes[7] != 0)
        throw ProtocolError(fmt::format("it sent a message of unknown type {}", type));
    const std::size_t length = read_u32(bytes.substr(8));
    if (length > max_payload_)
        throw ProtocolError(fmt::format("it announced a message of {} bytes where at most {} are allowed",
                                        length, max_payload_));
    if (bytes.size() - frame_header_size < length) return std::nullopt;
    consumed_ += frame_header_size + length;
    return Frame{static_cast<FrameType>(type), std::string(bytes.substr(frame_header_size, length))};
}

std::size_t FrameParser::missing() const {
    const std::string_view bytes = std::string_view(buffer_).substr(consumed_);
    if (bytes.size() < frame_header_size) return frame_header_size - bytes.size();
    return frame_header_size + read_u32(bytes.substr(8)) - bytes.size();
}

PayloadWriter& PayloadWriter::u32(std::uint32_t value) {
    append_u32(text_, value);
    return *this;
}

PayloadWriter& PayloadWriter::u64(std::uint64_t value) {
    return u32(static_cast<std::uint32_t>(value)).u32(static_cast<std::uint32_t>(value >> 32));
}

PayloadWriter& PayloadWriter::text_of(std::string_view value) {
    return u32(static_cast<std::uint32_t>(value.size())).bytes(value);
}

PayloadWriter& PayloadWriter::bytes(std::string_view value) {
    text_.append(value);
    return *this;
}

std::uint32_t PayloadReader::u32() {
    return read_u32(bytes(4));
}

std::uint64_t PayloadReader::u64() {
    const std::uint64_t low = u32();
    return low | std::uint64_t{u32()} << 32;
}

std::string_view PayloadReader::text_of() {
    return bytes(u32());
}

std::string_view PayloadReader::bytes(std::size_t count) {
    if (rest_.size() < count) throw ProtocolError("it sent a message that is too short");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
}

std::string_view PayloadReader::rest() {
    return bytes(rest_.size());
}

void PayloadReader::finish() const {
    if (!rest_.empty()) throw ProtocolError("it sent a message that is too long");
}

}  // namespace hocket::transport
