// Rails whose other end is the fuzzer, over real connections: messages and reports that are right or mutated,
// on any of the connections, in pieces of any size, while messages are posted and connections end at any
// moment. Each message must complete once. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with
// runtime/transport/streams/{rails,stream,stripes}.cpp, runtime/transport/net/*.cpp; -rss_limit_mb=0); a unit
// test calls it with seeded bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "runtime/transport/streams/rails.hpp"
#include "runtime/transport/streams/stripes.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket::test;
using namespace hocket::transport;

namespace {

constexpr std::size_t lanes = 3, tags = 3;

struct FuzzedPost {
    Message message;
    std::vector<std::byte> buffer;
    Segment segment;
    int completions = 0;
};

class FuzzedGame {
  public:
    FuzzedGame(const std::uint8_t* data, std::size_t size) : input_(data, size) {
        std::vector<Socket> ours;
        for (ConnectedPair& pair : pairs_) ours.push_back(std::move(pair.ours));
        rails_ = std::make_unique<Rails>(std::move(ours), std::vector<std::string>{"a", "b", "c"});
    }

    void play() {
        while (input_.any()) turn();
        for (ConnectedPair& pair : pairs_) reset(pair.theirs);
        post(false);  // so that somebody looks
        for (int i = 0; i < 200 && !is_over(); ++i) {
            rails_->look(done_);
            move();
        }
        for (const FuzzedPost& post : posts_) require(post.completions == 1);
    }

  private:
    void turn() {
        switch (input_.below(9)) {
            case 0:
                return say_message();
            case 1:
                return say_report();
            case 2:
                return post(true);
            case 3:
                return post(false);
            case 4:
                return void(rails_->make_way());
            case 5:
                return rails_->look(done_);
            case 6:
                if (input_.below(4) == 0) reset(pairs_[input_.below(lanes)].theirs);
                return;
            case 7:
                if (input_.below(4) == 0) rails_->lose(input_.below(lanes), "silence", done_);
                return;
            default:
                return move();
        }
    }

    void say(const void* bytes, std::size_t size) {
        std::vector<std::uint8_t> text(size);
        std::memcpy(text.data(), bytes, size);
        if (input_.below(8) == 0)
            text[input_.below(size)] ^= static_cast<std::uint8_t>(1 + input_.below(255));
        if (input_.below(8) == 0) text.resize(1 + input_.below(size));
        const ConnectedPair& pair = pairs_[input_.below(lanes)];
        if (pair.theirs.is_open())
            send(pair.theirs.fd(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }

    void say_message() {
        const std::size_t bytes = 1 + input_.below(2000);
        std::vector<std::uint8_t> text(sizeof(WireHeader) + bytes);
        const WireHeader header{input_.below(tags), bytes, 1,
                                static_cast<std::uint32_t>(1 + (input_.below(8) == 0 ? lanes - 1 : 0)) |
                                    static_cast<std::uint32_t>(input_.below(lanes)) << 16};
        std::memcpy(text.data(), &header, sizeof header);
        say(text.data(), text.size());
    }

    // Mostly of what there was to acknowledge.
    void say_report() {
        struct {
            WireHeader header;
            std::array<std::uint64_t, most_lanes> taken{};
        } report{{input_.below(3) == 0 ? input_.below(8) : 0, sizeof report.taken, 0, 0}};
        for (std::uint64_t& taken : report.taken) taken = input_.below(3);
        say(&report, sizeof report);
    }

    void post(bool is_sent) {
        FuzzedPost& post = posts_.emplace_back();
        post.buffer.resize(1 + input_.below(3000));
        post.segment = {post.buffer.data(), post.buffer.size()};
        post.message.user = &post;
        const std::uint64_t tag = input_.below(tags);
        if (!is_sent)
            rails_->receive(tag, {&post.segment, 1}, post.message);
        else if (rails_->left() > 1 && input_.below(2) == 0)
            stripes_.send(*rails_, tag, 1, {&post.segment, 1}, post.message, done_);
        else
            rails_->send(tag, 1, {&post.segment, 1}, post.message, done_);
        std::uint8_t sink[4096];
        for (const ConnectedPair& pair : pairs_)
            while (pair.theirs.is_open() && recv(pair.theirs.fd(), sink, sizeof sink, MSG_DONTWAIT) > 0) {
            }
    }

    void move() {
        rails_->move(done_);
        stripes_.receive_rest(*rails_);
        stripes_.settle(done_, 0);
        rails_->take_news();
        for (const Completion& completion : done_) {
            FuzzedPost& post = *static_cast<FuzzedPost*>(completion.message->user);
            require(++post.completions == 1);
            require(completion.ok || !completion.error.empty());
        }
        done_.clear();
    }

    bool is_over() const {
        return std::all_of(posts_.begin(), posts_.end(),
                           [](const FuzzedPost& post) { return post.completions > 0; });
    }

    FuzzInput input_;
    std::array<ConnectedPair, lanes> pairs_;
    std::unique_ptr<Rails> rails_;
    Stripes stripes_;
    std::deque<FuzzedPost> posts_;
    std::vector<Completion> done_;
};

}  // namespace

extern "C" const char* __asan_default_options() {
    return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
    return "allocator_may_return_null=1";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedGame(data, size).play();
    return 0;
}
