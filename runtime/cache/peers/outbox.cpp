#include "runtime/cache/peers/outbox.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/transport/net/transfer.hpp"

namespace hocket::cache {
namespace {

constexpr std::array<std::byte, 64 * 1024> zeros{};

void call(std::function<void()>& let_go) {
    if (const auto now = std::exchange(let_go, nullptr)) now();
}

}  // namespace

// The data of one system call.
struct PeerOutbox::Parts {
    std::array<iovec, 96> list;
    std::size_t count = 0, share = piece_size;

    bool have_room() const { return count + 3 <= list.size() && share > 0; }
    void add(const void* data, std::size_t size) {
        if (size == 0) return;
        list[count++] = {const_cast<void*>(data), size};
        share -= std::min(share, size);
    }
};

void PeerOutbox::push(const PeerHeader& header, const std::byte* payload, std::function<void()> let_go) {
    queue_.push_back(
        {header.id, header.key, header.bytes, encode_peer_header(header), payload, 0, 0, std::move(let_go)});
}

void PeerOutbox::take_back(std::uint64_t id) {
    const auto found =
        std::find_if(queue_.begin(), queue_.end(), [&](const Message& message) { return message.id == id; });
    if (found == queue_.end()) return;
    auto let_go = std::exchange(found->let_go, nullptr);
    std::uint64_t before = 0;
    for (auto message = queue_.begin(); message != found; ++message) before += message->size();
    if (before >= sent_ + begun_ && (found != queue_.begin() || sent_ == 0))
        queue_.erase(found);
    else
        found->payload = nullptr;
    call(let_go);
}

void PeerOutbox::clear() {
    auto queue = std::exchange(queue_, {});
    sent_ = begun_ = 0;
    for (Message& message : queue) call(message.let_go);
}

std::string PeerOutbox::flush(const transport::Socket& socket) {
    for (std::size_t turn = 0; turn < pieces_a_turn && !queue_.empty(); ++turn) {
        Parts parts;
        gather(parts);
        const transport::Transfer transfer =
            transport::send_some(socket, std::span(parts.list).first(parts.count));
        begun_ = socket.bytes_begun();
        if (transfer.has_ended) return transfer.why();
        if (transfer.bytes == 0) return "";
        sent(transfer.bytes);
    }
    return "";
}

void PeerOutbox::gather(Parts& parts) {
    std::uint64_t from = sent_;
    for (auto message = queue_.begin(); message != queue_.end() && parts.have_room(); ++message) {
        if (from < peer_header_size) parts.add(message->header.data() + from, peer_header_size - from);
        if (message->bytes > 0 && !gather_bytes(*message, from, parts)) return;
        from = 0;
    }
}

// Returns false if there is room for only a part of the bytes.
bool PeerOutbox::gather_bytes(Message& message, std::uint64_t from, Parts& parts) {
    const std::uint64_t begin = std::clamp<std::uint64_t>(from, peer_header_size, message.checksum_at());
    const std::uint64_t offset = begin - peer_header_size;
    std::uint64_t count = std::min<std::uint64_t>(message.bytes - offset, parts.share);
    if (message.payload != nullptr) {
        hash(message, offset + count);
        parts.add(message.payload + offset, count);
    } else {
        count = std::min<std::uint64_t>(count, zeros.size());
        parts.add(zeros.data(), count);
    }
    if (offset + count < message.bytes) return false;
    const std::uint64_t done = from > message.checksum_at() ? from - message.checksum_at() : 0;
    parts.add(reinterpret_cast<const char*>(&message.checksum) + done, peer_checksum_size - done);
    return true;
}

void PeerOutbox::hash(Message& message, std::uint64_t end) {
    if (end <= message.hashed) return;
    if (message.hashed == 0) checksum_.begin(message.key);
    checksum_.add({message.payload + message.hashed, end - message.hashed});
    message.hashed = end;
    if (end == message.bytes) message.checksum = checksum_.value();
}

void PeerOutbox::sent(std::size_t bytes) {
    sent_ += bytes;
    while (!queue_.empty() && sent_ >= queue_.front().size()) {
        sent_ -= queue_.front().size();
        auto let_go = std::move(queue_.front().let_go);
        queue_.pop_front();
        call(let_go);
    }
}

}  // namespace hocket::cache
