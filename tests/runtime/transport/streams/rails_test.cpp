// Several connections with one rank, of which some are cut while messages are under way.
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "runtime/transport/net/transfer.hpp"
#include "runtime/transport/streams/rails.hpp"
#include "runtime/transport/streams/stripes.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using namespace hocket::transport;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int ends = 2;

// What becomes of a connection at a moment: what each end is told by the kernel, and whether bytes still go.
enum class Cut { reset_both, close_both, reset_one, silence, one_direction, count };

// A connection of two ends by way of this, which passes bytes on until it is cut.
class Cable {
  public:
    Socket end(int which) { return std::move(pairs_[which].ours); }

    void cut_after(std::size_t bytes, int direction, Cut cut) {
        cut_at_ = bytes, direction_ = direction, cut_ = cut;
    }
    bool is_cut() const { return is_cut_; }
    bool is_silent() const { return is_cut_ && (cut_ == Cut::silence || cut_ == Cut::one_direction); }

    // Passes at most so many bytes on in a direction: from that end.
    void pass(int from, std::size_t most) {
        if (has_ended_ || (is_cut_ && (cut_ != Cut::one_direction || from == direction_))) return;
        const bool may_be_cut = !is_cut_ && from == direction_;
        if (may_be_cut) most = std::min(most, cut_at_ - passed_);
        char bytes[1 << 16];
        const ssize_t n =
            recv(pairs_[from].theirs.fd(), bytes, std::min(most, sizeof bytes), MSG_DONTWAIT | MSG_PEEK);
        if (n == 0 && most > 0) return end_all();
        if (n > 0) {
            const ssize_t sent = ::send(pairs_[1 - from].theirs.fd(), bytes, static_cast<std::size_t>(n),
                                        MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0) recv(pairs_[from].theirs.fd(), bytes, static_cast<std::size_t>(sent), 0);
            if (may_be_cut) passed_ += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
        }
        if (may_be_cut && passed_ == cut_at_) cut();
    }

    void cut() {
        is_cut_ = true;
        if (cut_ == Cut::reset_both || cut_ == Cut::reset_one) reset(pairs_[direction_].theirs);
        if (cut_ == Cut::reset_both) reset(pairs_[1 - direction_].theirs);
        if (cut_ == Cut::close_both) end_all();
        has_ended_ |= cut_ == Cut::reset_both || cut_ == Cut::reset_one;
    }

  private:
    void end_all() {
        has_ended_ = true;
        for (ConnectedPair& pair : pairs_) pair.theirs.close();
    }

    ConnectedPair pairs_[ends];
    std::size_t cut_at_ = SIZE_MAX, passed_ = 0;
    int direction_ = 0;
    Cut cut_ = Cut::silence;
    bool is_cut_ = false, has_ended_ = false;
};

struct Post {
    Message message;
    std::vector<char> data, seen;
    std::vector<Segment> segments;
    std::uint64_t tag = 0;
    int expected = 0;  // received: the seed of the message
    bool is_sent = false, is_started = false;
    int completions = 0;
};

struct End {
    std::unique_ptr<Rails> rails;
    Stripes stripes;
    std::deque<Post> posts;
    std::vector<Completion> done;
    std::vector<std::string> news;
    std::map<std::uint64_t, std::deque<int>> awaited;  // by tag: seeds of the other end's messages, in order
};

// Two ends that send each other random messages over cables that are cut at random.
class Game {
  public:
    Game(unsigned seed, std::size_t lanes, std::size_t cuts)
        : random_(seed), cables_(lanes), cuts_(std::min(cuts, lanes)), lazy_(seed % (ends + 1)) {
        for (std::size_t i = 0; i < cuts_; ++i) {
            const auto cut = static_cast<Cut>(below(static_cast<std::size_t>(Cut::count)));
            const std::size_t at = below(4) == 0 ? below(100) : below(600'000);
            cables_[(i + seed) % lanes].cut_after(at, static_cast<int>(below(ends)), cut);
        }
        for (int which = 0; which < ends; ++which) {
            std::vector<Socket> sockets;
            std::vector<std::string> names;
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                sockets.push_back(cables_[lane].end(which));
                names.push_back("cable " + std::to_string(lane));
            }
            ends_[which].rails = std::make_unique<Rails>(std::move(sockets), std::move(names));
        }
        for (int which = 0; which < ends; ++which) write_script(which);
    }

    // Until all messages have ended, or for so many turns.
    void play(int turns = 400'000) {
        for (; turns > 0 && !is_over(); --turns) turn();
    }

    bool is_over() const {
        const auto is_complete = [](const Post& post) { return post.completions > 0; };
        return std::all_of(ends_.begin(), ends_.end(), [&](const End& end) {
            return std::all_of(end.posts.begin(), end.posts.end(), is_complete);
        });
    }

    void cut_all() {
        for (Cable& cable : cables_) {
            cable.cut_after(0, 0, Cut::reset_both);
            cable.cut();
        }
    }

    std::array<End, ends>& both() { return ends_; }
    const std::vector<Cable>& cables() const { return cables_; }

  private:
    std::size_t below(std::size_t limit) { return random_() % limit; }

    std::size_t any_size() {
        const std::size_t around[] = {1, 60, 5'000, 70'000, 300'000};
        return 1 + below(around[below(5)]);
    }

    void write_script(int which) {
        constexpr std::size_t messages = 30, tags = 5;
        End &from = ends_[which], &to = ends_[1 - which];
        for (std::size_t i = 0; i < messages; ++i) {
            const std::uint64_t tag = below(tags);
            const int seed = 1000 * which + static_cast<int>(i);
            Post& sent = from.posts.emplace_back();
            sent.is_sent = true;
            sent.data = pattern(any_size(), seed);
            sent.tag = tag;
            Post& received = to.posts.emplace_back();
            received.data.assign(sent.data.size() + below(3), 'u');
            received.tag = tag;
            to.awaited[tag].push_back(seed);
        }
    }

    void start_one(End& end) {
        const auto next = std::find_if(end.posts.begin(), end.posts.end(),
                                       [&](const Post& post) { return !post.is_started && below(2) == 0; });
        if (next == end.posts.end()) return;
        // Of one tag in their order.
        const auto first = std::find_if(end.posts.begin(), end.posts.end(), [&](const Post& post) {
            return !post.is_started && post.tag == next->tag && post.is_sent == next->is_sent;
        });
        start(end, *first);
    }

    void start(End& end, Post& post) {
        post.is_started = true;
        post.message.user = &post;
        post.segments = backwards(post.data, {1 + post.data.size() / (1 + below(4))});
        std::reverse(post.segments.begin(), post.segments.end());
        if (!post.is_sent) {
            post.expected = end.awaited[post.tag].front();
            end.awaited[post.tag].pop_front();
            return end.rails->receive(post.tag, post.segments, post.message);
        }
        if (post.data.size() > 20'000 && end.rails->left() > 1)
            end.stripes.send(*end.rails, post.tag, seed_of(end, post), post.segments, post.message, end.done);
        else
            end.rails->send(post.tag, seed_of(end, post), post.segments, post.message, end.done);
    }

    // Messages of a tag are started in the order in which the other end awaits them.
    std::uint32_t seed_of(End& end, const Post& post) {
        const int which = &end == &ends_[0] ? 0 : 1;
        int sends = 0;
        for (const Post& other : end.posts) {
            if (&other == &post) break;
            sends += other.is_sent;
        }
        return static_cast<std::uint32_t>(1000 * which + sends);
    }

    void turn() {
        Cable& cable = cables_[below(cables_.size())];
        const std::size_t bytes = below(3) == 0 ? 1 + below(50) : 1 + below(1 << 16);
        cable.pass(static_cast<int>(below(ends)), bytes);
        const std::size_t which = below(ends);
        End& end = ends_[which];
        if (below(3) == 0) start_one(end);
        if (which == lazy_ && below(40) != 0) return;
        if (below(20) == 0) end.rails->make_way();
        if (below(500) == 0) end.rails->look(end.done);
        if (below(300) == 0) notice_silence();
        move(end);
    }

    // One end's clock says that a cable is dead; the other may believe what it likes.
    void notice_silence() {
        for (std::size_t i = 0; i < cables_.size(); ++i) {
            End& end = ends_[below(ends)];
            if (cables_[i].is_silent()) end.rails->lose(i, "silence", end.done);
        }
    }

    void move(End& end) {
        end.rails->move(end.done);
        end.stripes.receive_rest(*end.rails);
        end.stripes.settle(end.done, 0);
        for (auto& text : end.rails->take_news()) end.news.push_back(text);
        for (const Completion& completion : end.done) judge(completion);
        end.done.clear();
    }

    void judge(const Completion& completion) {
        Post& post = *static_cast<Post*>(completion.message->user);
        REQUIRE(++post.completions == 1);
        if (!completion.ok) {
            INFO(completion.error);
            REQUIRE(cuts_ == cables_.size());
            return;
        }
        if (post.is_sent) {  // the memory is the caller's again
            std::fill(post.data.begin(), post.data.end(), 'x');
            return;
        }
        REQUIRE(completion.checksum == static_cast<std::uint32_t>(post.expected));
        const auto expected = pattern(completion.bytes, post.expected);
        REQUIRE(std::memcmp(post.data.data(), expected.data(), expected.size()) == 0);
        post.seen = post.data;
    }

    std::mt19937 random_;
    std::vector<Cable> cables_;
    std::size_t cuts_;
    std::size_t lazy_;  // an end that seldom looks, or none: so much comes at once
    std::array<End, ends> ends_;
};

}  // namespace

TEST_CASE("messages outlive all rails but one: each arrives once, in order, whatever is cut where (seeded)") {
    const std::size_t lanes = GENERATE(2u, 2u, 3u, 4u);
    static unsigned seed = 0;
    std::size_t losses = 0;
    for (int round = 0; round < 40; ++round) {
        INFO("seed " << ++seed << ", " << lanes << " rails");
        Game game(seed, lanes, lanes - 1);
        game.play();
        REQUIRE(game.is_over());
        for (End& end : game.both()) {
            for (const Post& post : end.posts)
                if (!post.is_sent) REQUIRE(post.seen == post.data);  // nothing wrote to it afterwards
            losses += end.news.size();
        }
    }
    CHECK(losses > 40);
}

TEST_CASE("when the last rail breaks, each message ends once, with the reason") {
    static unsigned seed = 5000;
    for (int round = 0; round < 30; ++round) {
        INFO("seed " << ++seed);
        Game game(seed, 2, 2);
        game.play(static_cast<int>(seed % 7) * 300);
        game.cut_all();
        game.play();
        REQUIRE(game.is_over());
    }
}

TEST_CASE("a lost rail is told of once, by both ends, with what carries its messages") {
    Game game(1, 2, 0);
    game.play(50);
    End &one = game.both()[0], &other = game.both()[1];
    one.rails->lose(1, "no answer for 3 s", one.done);
    game.play();
    REQUIRE(game.is_over());
    CHECK(one.news == std::vector<std::string>{"cable 1 was lost: no answer for 3 s; its messages go over "
                                               "cable 0"});
    // It may see the end of the connection before it reads the report.
    REQUIRE(other.news.size() == 1);
    CHECK_THAT(other.news[0],
               Catch::Contains("cable 1 was lost: ") && Catch::Contains("; its messages go over cable 0"));
    CHECK(one.rails->left() == 1);
    CHECK(other.rails->left() == 1);
}

TEST_CASE("a message is acknowledged when its receiver has it, not when the kernel has") {
    ConnectedPair pairs[2];
    std::vector<Socket> ours, theirs;
    for (ConnectedPair& pair : pairs) {
        ours.push_back(std::move(pair.ours));
        theirs.push_back(std::move(pair.theirs));
    }
    Rails sender(std::move(ours), {"a", "b"}), receiver(std::move(theirs), {"a", "b"});
    const auto data = pattern(1000, 1);
    std::vector<char> into(1000);
    Message out, in;
    std::vector<Completion> sent, received;
    const auto from = whole(data), to = whole(into);
    sender.send(1, 2, from, out, sent);
    for (int i = 0; i < 100; ++i) sender.move(sent);
    CHECK(sent.empty());
    receiver.receive(1, to, in);
    while (received.empty()) receiver.move(received);
    while (sent.empty()) sender.move(sent);
    CHECK(sent[0].ok);
    CHECK(into == data);
}

TEST_CASE("silence counts from when an answer was due") {
    using namespace std::chrono_literals;
    const Clock::time_point start{1000s};
    Overdue overdue;
    // After a pause of a minute, nothing is due before something is missed.
    CHECK(overdue.at({false, false, 60s, 60s}, start) == 0s);
    CHECK(overdue.at({true, false, 61s, 1s}, start + 1s) == 0s);
    CHECK(overdue.at({true, false, 63s, 1s}, start + 3s) == 2s);
    // An answer between two looks, with a new loss behind it.
    CHECK(overdue.at({true, false, 500ms, 1s}, start + 4s) == 0s);
    CHECK(overdue.at({true, false, 1500ms, 1s}, start + 5s) == 1s);
    CHECK(overdue.at({false, false, 100ms, 1s}, start + 6s) == 0s);
    // An answer after the last look, and again a pause.
    CHECK(overdue.at({true, false, 1s, 1s}, start + 7s) == 0s);
    CHECK(overdue.at({true, false, 30s, 1s}, start + 38s) == 0s);
}

TEST_CASE("an outage after a pause costs no rail") {
    using namespace std::chrono_literals;
    in_own_network([]() -> std::string {
        ConnectedPair pairs[]{ConnectedPair(INADDR_LOOPBACK), ConnectedPair(INADDR_LOOPBACK + 1)};
        std::vector<Socket> ours, theirs;
        for (ConnectedPair& pair : pairs) {
            ours.push_back(std::move(pair.ours));
            theirs.push_back(std::move(pair.theirs));
        }
        Rails sender(std::move(ours), {"a", "b"}), receiver(std::move(theirs), {"a", "b"});
        const auto data = pattern(1000, 1);
        std::vector<char> into(1000);
        const auto from = whole(data), to = whole(into);
        std::vector<Completion> sent, received;
        const auto pass_on = [&](std::uint16_t lane, std::size_t most_turns) {
            Message out, in;
            sent.clear(), received.clear();
            sender.send(1, 2, from, out, sent, {1, lane});
            receiver.receive(1, to, in, lane);
            for (; most_turns > 0 && (sent.empty() || received.empty()); --most_turns) {
                sender.move(sent), receiver.move(received);
                std::this_thread::sleep_for(1ms);
            }
        };
        pass_on(0, 10'000), pass_on(1, 10'000);
        std::this_thread::sleep_for(4s);
        expect(ip("route add blackhole 127.0.0.2 table local"), "a route that leads nowhere");
        Message out, in;
        std::vector<Completion> late_sent, late_received;
        std::vector<char> late(1000);
        const auto late_to = whole(late);
        sender.send(3, 4, from, out, late_sent, {1, 1});
        receiver.receive(3, late_to, in, 1);
        while (!sender.streams()[1].answers().are_missing) {
            sender.move(late_sent);
            std::this_thread::sleep_for(1ms);
        }
        for (int look = 0; look < 3; ++look) {
            sender.look(late_sent);
            pass_on(0, 10'000);
        }
        expect(sender.left() == 2, "both rails are left");
        expect(ip("route del blackhole 127.0.0.2 table local"), "the old routes");
        while (late_sent.empty() || late_received.empty()) {
            sender.move(late_sent), receiver.move(late_received);
            std::this_thread::sleep_for(1ms);
        }
        expect(late_received[0].ok && late == std::vector<char>(data.begin(), data.end()), "the message");
        return "";
    });
}

TEST_CASE("what came behind a report of a loss, before the connection broke, is received") {
    ConnectedPair pairs[2];
    std::vector<Socket> ours, theirs;
    for (ConnectedPair& pair : pairs) {
        ours.push_back(std::move(pair.ours));
        theirs.push_back(std::move(pair.theirs));
    }
    Rails receiver(std::move(ours), {"a", "b"});
    const auto data = pattern(1000, 1);
    std::vector<char> into(1000);
    const auto from = whole(data), to = whole(into);
    Message out, in;
    std::vector<Completion> sent, received;
    receiver.receive(1, to, in);
    {
        Rails sender(std::move(theirs), {"a", "b"});
        sender.lose(1, "silence", sent);
        sender.move(sent);  // the report goes first
        sender.send(1, 2, from, out, sent);
        for (int i = 0; i < 100; ++i) sender.move(sent);
    }
    receiver.streams()[0].give_up("it was cut");
    while (received.empty()) receiver.move(received);
    CHECK(received[0].ok);
    CHECK(into == data);
}

TEST_CASE("arbitrary bytes on several rails, and arbitrary moments, break nothing (seeded)") {
    std::mt19937 random(20261129);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::uint8_t> bytes(random() % 200);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        REQUIRE(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()) == 0);
    }
}
