// Both ends of the exchange between PeerServices, with the test in the middle: the asking one, the answering
// one, and a raw end of a connection whose bytes the test makes itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/peers/service.hpp"
#include "runtime/transport/net/listening.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"

namespace hocket::test {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

inline constexpr std::byte untouched{0x5a};

// The contents of a sample, which every process calculates from its key.
inline Bytes sample(std::uint64_t key, std::size_t bytes) {
    Bytes all(bytes);
    std::uint64_t state = key * 0x9e3779b97f4a7c15 + bytes;
    for (std::size_t i = 0; i < bytes; i += sizeof state) {
        state = state * 6364136223846793005 + 1442695040888963407;
        std::memcpy(all.data() + i, &state, std::min(sizeof state, bytes - i));
    }
    return all;
}

// By memcmp(3), for the sanitizers' sake.
inline bool same(std::span<const std::byte> bytes, const std::byte* others) {
    return bytes.empty() || std::memcmp(bytes.data(), others, bytes.size()) == 0;
}

// Lets one thread wait until another has seen to it that something holds.
class Meeting {
  public:
    template <typename Change>
    void change(Change change) {
        const std::lock_guard lock(mutex_);
        change();
        changed_.notify_all();  // the waiting thread may then destroy this
    }
    template <typename Holds>
    void await(Holds holds, const char* what) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, long_enough, holds))
            throw std::runtime_error(std::string("awaited in vain: ") + what);
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
};

class Question final : public cache::SampleAsker {
  public:
    std::function<cache::SampleRoom(std::uint64_t)> on_room;  // instead of giving a block

    cache::SampleRoom room(std::uint64_t bytes) override {
        ++rooms;
        if (on_room) return on_room(bytes);
        return give(bytes);
    }
    cache::SampleRoom give(std::uint64_t bytes) {
        block.assign(bytes + 16, untouched);
        return {block.data(), false};
    }
    void answered(Status its_status, const std::string& its_text) override {
        meeting_.change([&] {
            at_answer = block;
            status = its_status;
            text = its_text;
            ++answers;
        });
    }
    Status await() {
        meeting_.await([&] { return answers > 0; }, "an answer");
        return status;
    }
    // Complete, and nothing was written behind it.
    bool is(const Bytes& bytes) const {
        if (block.size() != bytes.size() + 16) return false;
        for (std::size_t i = bytes.size(); i < block.size(); ++i)
            if (block[i] != untouched) return false;
        return same(bytes, block.data());
    }

    Bytes block, at_answer;
    Status status = Status::in_progress;
    std::string text;
    int answers = 0;
    std::atomic<int> rooms = 0;

  private:
    Meeting meeting_;
};

// Answers at once, unless the test holds the answers. Sample k has 1000 + k bytes; from 1 << 32 on there is
// none.
class Samples final : public cache::SampleAnswerer {
  public:
    using Give = std::function<void(Answer)>;

    void question(std::uint64_t key, Give give) override {
        meeting_.change([&] {
            ++asked;
            held_.emplace(key, give);
            most = std::max(most, held_.size());
        });
        if (!holds) release(key);
    }
    cache::SampleRoom room(std::uint64_t key, std::uint64_t bytes) override {
        const std::lock_guard lock(mutex_);
        if (bytes > largest) return {};
        if (laters-- > 0) return {nullptr, true};
        if (incoming_.contains(key)) throw std::logic_error("two rooms for one offer");
        return {
            incoming_.emplace(key, Bytes(std::max<std::size_t>(bytes, 1), untouched)).first->second.data(),
            false};
    }
    void offered(std::uint64_t key, std::byte* data, std::uint64_t bytes, bool complete, Give give) override {
        meeting_.change([&] {
            const std::lock_guard lock(mutex_);
            auto node = incoming_.extract(key);
            if (node.empty() || node.mapped().data() != data) throw std::logic_error("no such room");
            node.mapped().resize(bytes);
            complete ? void(taken[key] = node.mapped()) : void(++broken);
        });
        if (complete) give({});
    }
    void release(std::uint64_t key) {
        Give give;
        meeting_.change([&] {
            const auto found = held_.find(key);
            give = found->second;
            held_.erase(found);
        });
        if (key >> 32 != 0) return give({Status::not_found, "there is no sample " + std::to_string(key)});
        const auto bytes = std::make_shared<const Bytes>(sample(key, size_of(key)));
        give({Status::success, "", *bytes, [this, bytes] { meeting_.change([&] { ++done; }); }});
    }
    template <typename Holds>
    void await(Holds holds_now, const char* what) {
        meeting_.await(holds_now, what);
    }

    static std::size_t size_of(std::uint64_t key) { return key == large ? 64 << 20 : 1000 + key; }
    static constexpr std::uint64_t large = 77;

    std::atomic<bool> holds = false;
    std::atomic<int> laters = 0;
    std::size_t largest = std::size_t{1} << 30;
    int asked = 0, done = 0, broken = 0;
    std::size_t most = 0;  // questions that were open at once
    std::map<std::uint64_t, Bytes> taken;

  private:
    Meeting meeting_;
    std::mutex mutex_;
    std::multimap<std::uint64_t, Give> held_;
    std::map<std::uint64_t, Bytes> incoming_;
};

inline transport::Socket listen_somewhere(int port = 0) {
    return transport::listen_on({"127.0.0.1", port}, transport::Clock::now() + 5s, "");
}

inline cache::PeerServiceOptions options_of(int self, cache::SampleAnswerer* answerer, int port = 0) {
    cache::PeerServiceOptions options;
    options.self = self;
    options.secret = "a secret of the tests";
    options.identity = "0123abcd";
    options.answerer = answerer;
    if (answerer != nullptr) options.listener = listen_somewhere(port);
    return options;
}

int port_of(const transport::Socket& listener);

// Deadlines that must pass: long enough for everything that must happen before.
inline constexpr std::chrono::milliseconds a_while = 2s;

// As a cache does: until the peer is no longer lost.
void ask_until_answered(cache::PeerService& service, Question& question, std::uint64_t key);

// One that answers, and one that asks it.
struct PeerPair {
    explicit PeerPair(Samples& samples) : host(options_of(0, &samples)), guest(options_of(-1, nullptr)) {
        guest.connect({host.endpoint()});
    }
    cache::PeerService host, guest;
};

// A guest that has shaken hands, and whose bytes are the test's.
transport::Socket raw_guest(const transport::Endpoint& host);

// The next connection as a host that has shaken hands, and whose bytes are the test's.
transport::Socket raw_host(const transport::Socket& listener);

void say(const transport::Socket& socket, const void* data, std::size_t bytes);
// A header, the payload and its checksum (wrong if is_damaged).
Bytes wire_message(cache::PeerHeader header, const Bytes& payload = {}, bool is_damaged = false);
cache::PeerHeader hear_header(const transport::Socket& socket);
Bytes hear(const transport::Socket& socket, std::size_t bytes);  // all of them, or less at the end

}  // namespace hocket::test
