#include "runtime/cache/peers/inbox.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::cache {
namespace {

constexpr std::size_t stage_size = 32 * 1024;

}  // namespace

PeerInbox::PeerInbox(Reader& reader) : reader_(reader), stage_(new std::byte[stage_size]) {}

// Always parses all staged bytes, because no later event would announce them.
std::string PeerInbox::receive(const transport::Socket& socket) try {
    for (std::size_t turn = 0; parse() && turn < pieces_a_turn; ++turn) {
        const transport::Transfer transfer = read(socket, piece_size);
        if (transfer.has_ended) return transfer.why();
        if (transfer.bytes == 0) return "";
    }
    return "";
} catch (const transport::ProtocolError& error) {
    return error.what();
}

// Returns false if there is no room for the next message.
bool PeerInbox::parse() {
    for (;;) {
        switch (state_) {
            case State::header:
                if (staged() < peer_header_size) return true;
                header_ = decode_peer_header(std::span<const std::byte, peer_header_size>(
                    stage_.get() + stage_begin_, peer_header_size));
                stage_begin_ += peer_header_size;
                [[fallthrough]];
            case State::waiting:
                if (!begin()) return false;
                break;
            case State::bytes:
                take_staged();
                if (left_ > 0) return true;
                state_ = State::checksum;
                [[fallthrough]];
            case State::checksum:
                if (staged() < peer_checksum_size) return true;
                end();
        }
    }
}

bool PeerInbox::begin() {
    state_ = State::waiting;
    const SampleRoom room = reader_.begins(header_);
    if (room.later) return false;
    target_ = room.data;
    left_ = header_.bytes;
    if (left_ > 0) {
        state_ = State::bytes;
        checksum_.begin(header_.key);
    } else {
        state_ = State::header;
        reader_.ends(header_, true);
    }
    return true;
}

void PeerInbox::take_staged() {
    const std::size_t n = std::min<std::uint64_t>(staged(), left_);
    if (target_ != nullptr && n > 0) std::memcpy(target_, stage_.get() + stage_begin_, n);
    stage_begin_ += n;
    took(n);
}

void PeerInbox::took(std::size_t bytes) {
    left_ -= bytes;
    if (target_ == nullptr) return;
    checksum_.add({target_, bytes});
    target_ += bytes;
}

void PeerInbox::end() {
    std::uint64_t checksum;
    std::memcpy(&checksum, stage_.get() + stage_begin_, sizeof checksum);
    stage_begin_ += sizeof checksum;
    state_ = State::header;
    reader_.ends(header_, target_ != nullptr && checksum == checksum_.value());
}

// Fills the target first, then the stage.
transport::Transfer PeerInbox::read(const transport::Socket& socket, std::size_t most) {
    std::memmove(stage_.get(), stage_.get() + stage_begin_, staged());
    stage_end_ -= stage_begin_;
    stage_begin_ = 0;
    std::array<iovec, 2> parts;
    std::size_t count = 0;
    const bool is_direct = state_ == State::bytes && target_ != nullptr;
    const std::size_t direct = is_direct ? std::min<std::uint64_t>(left_, most) : 0;
    if (is_direct) parts[count++] = {target_, direct};
    if (!is_direct || direct == left_) parts[count++] = {stage_.get() + stage_end_, stage_size - stage_end_};
    const transport::Transfer transfer = transport::receive_some(socket, std::span(parts).first(count));
    const std::size_t taken = std::min(transfer.bytes, direct);
    if (taken > 0) took(taken);
    stage_end_ += transfer.bytes - taken;
    return transfer;
}

}  // namespace hocket::cache
