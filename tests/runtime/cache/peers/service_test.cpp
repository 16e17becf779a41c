// Questions, answers and offers between services that do as they should.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>

#include "runtime/cache/peers/questions.hpp"
#include "runtime/transport/net/sealing.hpp"
#include "tests/runtime/cache/peers/parts.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::cache;
using namespace hocket::transport;

#if defined(__SANITIZE_ADDRESS__)
constexpr int many = 10'000;
#elif defined(__SANITIZE_THREAD__)
constexpr int many = 3'000;
#else
const int many = in_long_form(100'000, 30'000);
#endif

TEST_CASE("keys are spread evenly over ranks, and the same way for ever") {
    for (const int peers : {1, 2, 3, 7, 64}) {
        std::vector<int> owned(static_cast<std::size_t>(peers));
        for (std::uint64_t key = 0; key < 70000; ++key)
            ++owned.at(static_cast<std::size_t>(owner_of(key, peers)));
        for (const int count : owned)
            CHECK(std::abs(count - 70000 / peers) < 5 * std::sqrt(70000.0 / peers) + 1);
    }
    CHECK(owner_of(0, 1000) == 883);
    CHECK(owner_of(1, 1000) == 566);
    CHECK(owner_of(~std::uint64_t{0}, 1000) == 893);
}

TEST_CASE("two services ask each other") {
    Samples samples[2];
    PeerService first(options_of(0, &samples[0])), second(options_of(1, &samples[1]));
    const std::vector<Endpoint> all{first.endpoint(), second.endpoint()};
    first.connect(all);
    second.connect(all);
    CHECK(first.count() == 2);
    CHECK(second.self() == 1);
    CHECK(first.name(1) == "rank 1 (" + all[1].text() + ")");
    for (PeerService* service : {&first, &second})
        for (int peer = 0; peer < 2; ++peer) {  // itself, too
            Question question;
            service->ask(peer, 5, long_enough, question);
            CHECK(question.await() == Status::success);
            CHECK(question.is(sample(5, Samples::size_of(5))));
        }
    Question none;
    first.ask(1, std::uint64_t{1} << 32, long_enough, none);
    CHECK(none.await() == Status::not_found);
    CHECK(none.text == first.name(1) + ": there is no sample 4294967296");
    CHECK(none.rooms == 0);
    CHECK_THROWS_WITH(first.ask(2, 5, 1s, none), "there is no peer 2, only 0 to 1");
}

TEST_CASE("answers come in any order, from any thread, on one connection") {
    Samples samples;
    samples.holds = true;
    PeerPair pair(samples);
    std::vector<Question> questions(100);
    for (std::size_t key = 0; key < 100; ++key) pair.guest.ask(0, key, long_enough, questions[key]);
    samples.await([&] { return samples.asked == 100; }, "the questions");
    for (std::size_t key = 100; key-- > 0;) {
        samples.release(key);
        CHECK(questions[key].await() == Status::success);
        CHECK(questions[key].is(sample(key, Samples::size_of(key))));
    }
    samples.await([&] { return samples.done == 100; }, "that all bytes are let go of");
}

TEST_CASE("who has no room yet is asked again, and who wants none gets none") {
    Samples samples;
    PeerPair pair(samples);
    Question later, unwanted, next;
    later.on_room = [&](std::uint64_t bytes) {
        return later.rooms < 4 ? SampleRoom{nullptr, true} : later.give(bytes);
    };
    unwanted.on_room = [](std::uint64_t) { return SampleRoom{}; };
    pair.guest.ask(0, Samples::large, long_enough, unwanted);
    CHECK(unwanted.await() == Status::limit);
    CHECK_THAT(unwanted.text, Catch::Contains("no room for the 67108864 bytes of sample 77"));
    pair.guest.ask(0, 3, long_enough, later);
    CHECK(later.await() == Status::success);
    CHECK(later.rooms == 4);
    CHECK(later.is(sample(3, Samples::size_of(3))));
    pair.guest.ask(0, 4, long_enough, next);
    CHECK(next.await() == Status::success);
}

TEST_CASE("a connection that waits for room keeps no other waiting") {
    Samples samples[2];
    PeerService first(options_of(0, &samples[0])), second(options_of(1, &samples[1]));
    PeerService guest(options_of(-1, nullptr));
    guest.connect({first.endpoint(), second.endpoint()});
    CHECK(guest.name(1) == "server 1 (" + second.endpoint().text() + ")");
    std::atomic<bool> has_room = false;
    Question stuck, free;
    stuck.on_room = [&](std::uint64_t bytes) {
        return has_room ? stuck.give(bytes) : SampleRoom{nullptr, true};
    };
    guest.ask(0, Samples::large, long_enough, stuck);
    guest.ask(1, Samples::large, long_enough, free);
    CHECK(free.await() == Status::success);
    CHECK(free.is(sample(Samples::large, Samples::size_of(Samples::large))));
    CHECK(stuck.answers == 0);
    has_room = true;
    CHECK(stuck.await() == Status::success);
    CHECK(stuck.is(sample(Samples::large, Samples::size_of(Samples::large))));
}

TEST_CASE("offers are taken, with their bytes") {
    Samples samples;
    samples.largest = 1 << 20;
    samples.laters = 2;
    PeerPair pair(samples);
    const Bytes small = sample(8, 3000), empty, whole = sample(9, 1 << 20),
                too_large = sample(10, (1 << 20) + 1);
    const std::vector<std::pair<std::uint64_t, const Bytes*>> offers{{8, &small}, {11, &empty}, {9, &whole}};
    for (const auto& [key, bytes] : offers) {
        Question question;
        pair.guest.offer(0, key, *bytes, long_enough, question);
        CHECK(question.await() == Status::success);
        CHECK(question.rooms == 0);
        CHECK(samples.taken.at(key) == *bytes);
    }
    Question refused;
    pair.guest.offer(0, 10, too_large, long_enough, refused);
    CHECK(refused.await() == Status::limit);
    CHECK_THAT(refused.text, Catch::Contains("no room for the 1048577 bytes of sample 10"));
}

namespace {

// One pool of random bytes, of which every sample is a part that its key tells.
class Pool {
  public:
    Pool() : bytes_(sample(1, (1 << 20) + 4096)) {}
    std::span<const std::byte> of(std::uint64_t key) const {
        // Asked many times for each key, so a generator with little state.
        std::uint64_t state = key;
        const auto random = [&] {
            std::uint64_t mixed = state += 0x9e3779b97f4a7c15;
            mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
            mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
            return mixed ^ mixed >> 31;
        };
        const std::size_t bytes =
            random() % 2 ? random() % 4096 : random() % (std::size_t{1} << (random() % 21));
        return std::span(bytes_).subspan(key % 4096, bytes);
    }

  private:
    const Bytes bytes_;
};

struct PoolAnswerer final : SampleAnswerer {
    void question(std::uint64_t key, std::function<void(Answer)> answer) override {
        if (key % 50 == 0) return answer({Status::io, "a bad block", {}, {}});
        ++lent;
        answer({Status::success, "", pool.of(key), [this] { --lent; }});
    }
    SampleRoom room(std::uint64_t, std::uint64_t) override { return {}; }
    void offered(std::uint64_t, std::byte*, std::uint64_t, bool, std::function<void(Answer)>) override {}
    const Pool pool;
    std::atomic<int> lent = 0;
};

// Asks again as soon as it is answered, until all have been.
class Reader final : public SampleAsker {
  public:
    Reader(PeerService& service, std::atomic<int>& next, const Pool& pool)
        : service_(service), next_(next), pool_(pool), block_(1 << 20) {}
    void start() {
        const int key = next_++;
        if (key >= many) return meeting_.change([&] { is_over_ = true; });
        key_ = static_cast<std::uint64_t>(key);
        calls_ = 0;
        std::fill_n(block_.begin(), std::min<std::size_t>(pool_.of(key_).size(), block_.size()), untouched);
        service_.ask(0, key_, long_enough, *this);
    }
    SampleRoom room(std::uint64_t bytes) override {
        if (key_ % 50 == 0 || bytes != pool_.of(key_).size()) ++wrong;
        if (key_ % 61 == 1 && calls_++ == 0) return {nullptr, true};
        if (key_ % 50 == 1) return {};
        return {block_.data(), false};
    }
    void answered(Status status, const std::string&) override {
        const auto bytes = pool_.of(key_);
        const Status right = key_ % 50 == 0                     ? Status::io
                             : key_ % 50 == 1 && !bytes.empty() ? Status::limit
                                                                : Status::success;
        if (status != right) ++wrong;
        if (status == Status::success && !same(bytes, block_.data())) ++wrong;
        ++answered_;
        start();
    }
    int await() {
        meeting_.await([&] { return is_over_; }, "the last answer");
        return answered_;
    }
    int wrong = 0;

  private:
    PeerService& service_;
    std::atomic<int>& next_;
    const Pool& pool_;
    Bytes block_;
    std::uint64_t key_ = 0;
    int calls_ = 0, answered_ = 0;
    bool is_over_ = false;
    Meeting meeting_;
};

std::string ask_for_many(const Endpoint& host) {
    const Pool pool;
    std::atomic<int> next = 0;
    std::vector<std::unique_ptr<Reader>> readers;
    PeerService service(options_of(-1, nullptr));
    service.connect({host});
    for (int i = 0; i < 64; ++i) readers.emplace_back(std::make_unique<Reader>(service, next, pool))->start();
    int answered = 0, wrong = 0;
    for (const auto& reader : readers) {
        answered += reader->await();
        wrong += reader->wrong;
    }
    expect(answered == many, "every question is answered once");
    expect(wrong == 0, "with its own bytes, or why not");
    return "";
}

}  // namespace

TEST_CASE("many questions of all sizes between two processes are all answered right") {
    const bool is_encrypted = GENERATE(false, true);
    PoolAnswerer answerer;
    PeerServiceOptions options = options_of(0, &answerer);
    const int port = port_of(options.listener);
    Processes host(250), guest(250);
    host.start([&]() -> std::string {
        encrypt_connections(is_encrypted);
        const PeerService service(std::move(options));
        for (;;) pause();
    });
    guest.start([&] {
        encrypt_connections(is_encrypted);
        return ask_for_many({"127.0.0.1", port});
    });
    require_success(guest.wait());
}

TEST_CASE("many questions of all sizes between two services of one process are all answered right") {
    encrypt_connections(GENERATE(true, false));
    PoolAnswerer answerer;
    {
        const PeerService host(options_of(0, &answerer));
        ask_for_many(host.endpoint());
    }
    CHECK(answerer.lent == 0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

TEST_CASE("the parser of what peers send stands inputs that chance made") {
    std::mt19937_64 random(4711);
    std::vector<std::uint8_t> input;
    for (int round = 0; round < many; ++round) {
        input.resize(random() % 200);
        for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
}
