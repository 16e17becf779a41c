// Fuzzes the parser of peers' messages: random headers, and a PeerInbox whose peer is the fuzzer, over a real
// connection: messages that are right, mutated or cut, in pieces of any size, with and without room for them.
// Messages that were not mutated must arrive unchanged. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address
// with runtime/cache/peers/inbox.cpp, protocol.cpp, frame.cpp, socket.cpp); a unit test calls it with seeded
// bytes.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/cache/peers/inbox.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/socket.hpp"
#include "tests/runtime/cache/peers/message_bytes.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::cache;
using namespace hocket::transport;

namespace {

std::size_t any_length(FuzzInput& input) {
    constexpr std::size_t around[] = {1, 40, 48, 300, 33000};
    return around[input.below(5)] + input.below(16);
}

// Checks that bytes which decode also encode to the same bytes.
void decode(const std::uint8_t* data, std::size_t size) {
    PeerHeaderBytes bytes{};
    std::memcpy(bytes.data(), data, std::min(size, bytes.size()));
    try {
        require(encode_peer_header(decode_peer_header(bytes)) == bytes);
    } catch (const ProtocolError&) {
    }
}

class Game final : private PeerInbox::Reader {
  public:
    Game(const std::uint8_t* data, std::size_t size) : input_(data, size), inbox_(*this) {
        int ends[2];
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
        ours_ = Socket(ends[0]);
        theirs_ = Socket(ends[1]);
    }

    void play() {
        write_script();
        while (input_.any() && why_.empty()) {
            if (input_.below(3) > 0)
                say(any_length(input_));
            else if (input_.below(8) == 0)
                inbox_.drop(), is_dropped_ = true;
            else
                look();
        }
        for (int i = 0; i < 1000 && said_ < script_.size() && why_.empty(); ++i) say(script_.size()), look();
        theirs_.close();
        for (int i = 0; i < 1000 && why_.empty(); ++i) look();
        require(!why_.empty());
        if (!is_mutated_) require(ended_ == sent_.size() && why_ == "the peer closed the connection");
    }

  private:
    void write_script() {
        for (std::uint64_t id = 0; id < input_.below(6); ++id) {
            PeerHeader header;
            header.kind = PeerMessage::offer;
            header.id = id;
            header.key = 3 * id;
            header.bytes = input_.below(4) == 0 ? 0 : any_length(input_);
            append(header);
        }
        if (script_.empty() || input_.below(2) == 0) return;
        is_mutated_ = true;
        for (std::size_t i = 1 + input_.below(3); i > 0; --i)
            script_[(input_.below(256) * 256 + input_.below(256)) % script_.size()] ^=
                static_cast<std::byte>(1 + input_.below(255));
        if (input_.below(4) == 0) script_.resize(input_.below(256) * script_.size() / 256);
    }

    void append(const PeerHeader& header) {
        sent_.push_back(header);
        const PeerHeaderBytes begin = encode_peer_header(header);
        script_.insert(script_.end(), begin.begin(), begin.end());
        if (header.bytes == 0) return;
        const std::size_t at = script_.size();
        for (std::size_t i = 0; i < header.bytes; ++i) script_.push_back(message_byte(header.id, i));
        PeerChecksum checksum;
        checksum.begin(header.key);
        checksum.add(std::span(script_).subspan(at));
        const std::uint64_t value = checksum.value();
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        script_.insert(script_.end(), bytes, bytes + sizeof value);
    }

    void say(std::size_t most) {
        const std::size_t share = std::min(most, script_.size() - said_);
        const ssize_t n = send(theirs_.fd(), script_.data() + said_, share, MSG_NOSIGNAL);
        if (n > 0) said_ += static_cast<std::size_t>(n);
    }

    void look() { why_ = inbox_.receive(ours_); }

    SampleRoom begins(const PeerHeader& header) override {
        require(ended_ < sent_.size());
        if (!is_mutated_) require(encode_peer_header(header) == encode_peer_header(sent_[ended_]));
        require(header.bytes <= max_peer_bytes);
        if (laters_ < 3 && input_.below(4) == 0) {
            ++laters_;
            return {nullptr, true};
        }
        laters_ = 0;
        is_dropped_ = input_.below(8) == 1 || header.bytes > (1 << 20);
        if (is_dropped_) return {};
        block_.assign(header.bytes, std::byte{0});  // the sanitizers guard its ends
        return {block_.data(), false};
    }

    void ends(const PeerHeader& header, bool is_intact) override {
        ++ended_;
        if (header.bytes == 0) return require(is_intact);
        if (is_dropped_) return require(!is_intact);
        if (!is_mutated_) require(is_intact);
        if (!is_intact) return;
        for (std::size_t i = 0; i < header.bytes; ++i) require(block_[i] == message_byte(header.id, i));
    }

    FuzzInput input_;
    PeerInbox inbox_;
    Socket ours_, theirs_;
    std::vector<PeerHeader> sent_;
    std::vector<std::byte> script_, block_;
    std::size_t said_ = 0, ended_ = 0;
    int laters_ = 0;
    bool is_mutated_ = false, is_dropped_ = false;
    std::string why_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    decode(data, size);
    Game(data, size).play();
    return 0;
}
