// A Stream whose peer is the fuzzer, over a real connection: messages that are right, mutated or cut, in
// pieces of any size, while receives and sends are posted at any moment. Entry of libFuzzer (clang++
// -fsanitize=fuzzer,address with runtime/transport/streams/stream.cpp, socket.cpp; -rss_limit_mb=0 for the
// lengths that it makes up); the unit tests call it with seeded bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "runtime/transport/streams/stream.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket::test;
using namespace hocket::transport;

namespace {

// Short lengths, and some beyond the sizes that are staged or kept in a block.
std::size_t any_length(FuzzInput& input) {
    constexpr std::size_t around[] = {8, 24, 1000, 16 * 1024, 40000};
    return std::max<std::size_t>(1, around[input.below(5)] + input.below(16) - 8 * input.below(2));
}

constexpr std::size_t tags = 4, guard = 16;
constexpr std::uint8_t untouched = 0x5a;

std::uint8_t byte_of(std::uint32_t checksum, std::size_t i) {
    return static_cast<std::uint8_t>(checksum * 31 + i * 7 + (i >> 8));
}

struct Post {
    Message message;
    std::uint64_t tag = 0;
    std::vector<std::uint8_t> buffer;  // a guard goes ahead of each segment, and one is behind the last
    std::vector<Segment> segments;
    bool is_send = false;
    int completions = 0;
};

class Game {
  public:
    Game(const std::uint8_t* data, std::size_t size) : input_(data, size), stream_(std::move(pair_.ours)) {}

    void play() {
        write_script();
        while (input_.any()) turn();
        while (said_ < script_.size() && is_heard_) say(script_.size());
        const bool is_reset = input_.below(2) == 1;
        is_reset ? reset(pair_.theirs) : pair_.theirs.close();
        finish();
    }

  private:
    // Writes correct messages, then perhaps some wrong bytes.
    void write_script() {
        for (std::size_t count = input_.below(8); count > 0; --count) {
            const WireHeader header{input_.below(tags), any_length(input_), next_checksum_++};
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(&header);
            headers_.push_back(script_.size());
            sent_by_tag_[header.tag].push_back(header);
            script_.insert(script_.end(), bytes, bytes + sizeof header);
            for (std::size_t i = 0; i < header.bytes; ++i) script_.push_back(byte_of(header.checksum, i));
        }
        if (script_.empty()) return;
        for (std::size_t wrong = input_.below(4) / 2; wrong > 0; --wrong) mutate();
    }

    void mutate() {
        is_honest_ = false;
        const std::size_t header = headers_[input_.below(headers_.size())];
        if (input_.below(4) == 0)
            script_.resize(header + input_.below(sizeof(WireHeader)));
        else
            script_[header + input_.below(sizeof(WireHeader))] ^=
                static_cast<std::uint8_t>(1 + input_.below(255));
        headers_.erase(
            std::remove_if(headers_.begin(), headers_.end(),
                           [&](std::size_t at) { return at + sizeof(WireHeader) > script_.size(); }),
            headers_.end());
        if (headers_.empty()) headers_.push_back(0), script_.resize(sizeof(WireHeader));
    }

    void turn() {
        switch (input_.below(6)) {
            case 0:
                return say(1 + input_.below(40));
            case 1:
                return say(any_length(input_));
            case 2:
                return receive();
            case 3:
                return post_send();
            case 4:
                return void(stream_.make_way());
            default:
                return look();
        }
    }

    void say(std::size_t most) {
        const std::size_t share = std::min(most, script_.size() - said_);
        const ssize_t n = send(pair_.theirs.fd(), script_.data() + said_, share, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) said_ += static_cast<std::size_t>(n);
        if (n < 0 && errno != EAGAIN) is_heard_ = false;
        if (n <= 0 && share > 0) look(), is_heard_ = is_heard_ && ++full_ < 100;
    }

    void receive() {
        Post& post = posts_.emplace_back();
        post.tag = input_.below(tags);
        lay_out(post, any_length(input_));
        stream_.receive(post.tag, post.segments, post.message);
        post.message.user = &post;
    }

    // One segment, or several of any lengths.
    void lay_out(Post& post, std::size_t bytes) {
        const std::size_t count =
            std::min<std::size_t>(bytes, input_.below(4) == 0 ? 1 + input_.below(600) : 1);
        post.buffer.assign(bytes + (count + 1) * guard, untouched);
        auto* at = reinterpret_cast<std::byte*>(post.buffer.data());
        for (std::size_t left = count; left > 0; --left) {
            const std::size_t most = bytes - (left - 1);  // one for each that follows
            const std::size_t share = left == 1 ? bytes : 1 + input_.below(std::min(most, 2 * bytes / left));
            post.segments.push_back({at += guard, share});
            at += share;
            bytes -= share;
        }
    }

    void require_guards(const Post& post) {
        const auto* at = post.buffer.data();
        for (const Segment& segment : post.segments) {
            const auto* begin = reinterpret_cast<const std::uint8_t*>(segment.data);
            for (; at < begin; ++at) require(*at == untouched);
            at += segment.bytes;
        }
        for (; at < post.buffer.data() + post.buffer.size(); ++at) require(*at == untouched);
    }

    void post_send() {
        Post& post = posts_.emplace_back();
        post.is_send = true;
        lay_out(post, any_length(input_));
        post.message.user = &post;
        stream_.send(1, 1, post.segments, post.message, done_);
        std::uint8_t sink[4096];
        while (recv(pair_.theirs.fd(), sink, sizeof sink, MSG_DONTWAIT) > 0) {
        }
        judge();
    }

    void look() {
        stream_.move(done_);
        judge();
    }

    // After the end of the connection everything completes: in few moves, each of which makes progress.
    void finish() {
        receive();  // so that the stream looks at the connection
        for (int i = 0; i < 1000; ++i) {
            pollfd entry = stream_.interest();
            if (!stream_.make_way() && !stream_.move(done_) && entry.fd >= 0) ::poll(&entry, 1, 10);
            judge();
        }
        for (const Post& post : posts_) require(post.completions == 1);
        stream_.move(done_);
        require(done_.empty());
    }

    void judge() {
        for (const Completion& completion : done_) {
            Post& post = *static_cast<Post*>(completion.message->user);
            require(++post.completions == 1);
            require(completion.ok || !completion.error.empty());
            if (!post.is_send) judge_received(post, completion);
        }
        done_.clear();
    }

    void judge_received(const Post& post, const Completion& completion) {
        const std::size_t room = bytes_in(post.segments);
        require_guards(post);
        if (!completion.ok && !completion.truncated) return;
        require(completion.truncated == (completion.bytes > room));
        if (!is_honest_) return;
        auto& sent = sent_by_tag_[post.tag];
        require(!sent.empty());
        require(completion.bytes == sent.front().bytes && completion.checksum == sent.front().checksum);
        std::size_t i = 0;
        for (const Segment& segment : post.segments)
            for (std::size_t at = 0; at < segment.bytes && i < completion.bytes; ++at, ++i)
                require(std::to_integer<std::uint8_t>(segment.data[at]) == byte_of(completion.checksum, i));
        sent.pop_front();
    }

    FuzzInput input_;
    ConnectedPair pair_;
    Stream stream_;
    std::vector<std::uint8_t> script_;
    std::vector<std::size_t> headers_;  // their positions in the script
    std::map<std::uint64_t, std::deque<WireHeader>> sent_by_tag_;
    std::uint32_t next_checksum_ = 1;
    std::size_t said_ = 0;
    int full_ = 0;           // the number of times that the connection took nothing
    bool is_heard_ = true;   // the connection still takes bytes
    bool is_honest_ = true;  // nothing was mutated
    std::deque<Post> posts_;
    std::vector<Completion> done_;
};

}  // namespace

// Tells the sanitizers to let such allocations fail: the Stream must notice that there is no memory.
extern "C" const char* __asan_default_options() {
    return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
    return "allocator_may_return_null=1";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Game(data, size).play();
    return 0;
}
