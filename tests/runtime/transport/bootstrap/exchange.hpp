// Shared by the tests of Fabric: connected endpoints, and messages sent and received until all are complete.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/job/open_fabric.hpp"
#include "tests/runtime/transport/fabric/providers.hpp"
#include "tests/runtime/transport/fabric/segment_lists.hpp"
#include "tests/support/processes.hpp"

namespace hocket::test {

inline transport::Patience for_seconds(int seconds) {
    return {transport::Clock::now() + std::chrono::seconds(seconds)};
}

inline std::unique_ptr<transport::Fabric> open_connected(Rank rank, const std::string& provider) {
    auto fabric = engine::open_fabric(prepare_provider(provider));
    fabric->connect(rank.job.all_gather(fabric->local_address(), std::chrono::seconds(15)), for_seconds(15));
    rank.job.all_gather("connected", std::chrono::seconds(15));
    return fabric;
}

// Waits until all ranks are done, and progresses the fabric meanwhile: a provider of datagrams acknowledges
// what a peer sends again only then.
inline void wait_for_all(Rank rank, transport::Fabric& fabric, std::chrono::seconds limit) {
    auto all = std::async(std::launch::async, [&] { rank.job.all_gather("done", limit); });
    transport::Completion late[8];
    while (all.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        fabric.poll(late);
        fabric.wait({}, std::chrono::milliseconds(2));
    }
    all.get();
}

// Takes completions until all messages are complete; polls, then sleeps, as the engine does, or only polls.
class Flow {
  public:
    explicit Flow(transport::Fabric& fabric, bool sleeps = true) : fabric_(fabric), sleeps_(sleeps) {}

    void send(int peer, std::uint64_t tag, std::uint32_t checksum, const std::vector<char>& data) {
        send(peer, tag, checksum, whole(data));
    }
    void send(int peer, std::uint64_t tag, std::uint32_t checksum, std::vector<transport::Segment> segments) {
        Post& post = *posts_.emplace_back(std::make_unique<Post>());
        post.segments = std::move(segments);
        while (!fabric_.send(peer, tag, checksum, post.segments, post.message)) progress();
    }
    void receive(int peer, std::uint64_t tag, std::vector<char>& data) {
        receive(peer, tag, data, whole(data));
    }
    // segments: of the data.
    void receive(int peer, std::uint64_t tag, std::vector<char>& data,
                 std::vector<transport::Segment> segments) {
        Post& post = *posts_.emplace_back(std::make_unique<Post>());
        post.segments = std::move(segments);
        post.message.user = &data;
        while (!fabric_.receive(peer, tag, post.segments, post.message)) progress();
    }
    std::vector<transport::Completion> finish() {
        while (done_.size() < posts_.size()) {
            if (!progress()) sleeps_ ? fabric_.wait({}, std::chrono::seconds(1)) : void(sched_yield());
        }
        return done_;
    }
    bool progress() {
        transport::Completion taken[8];
        const std::size_t n = fabric_.poll(taken);
        done_.insert(done_.end(), taken, taken + n);
        return n > 0;
    }
    const std::vector<transport::Completion>& done() const { return done_; }

  private:
    struct Post {
        transport::Message message;
        std::vector<transport::Segment> segments;
    };

    transport::Fabric& fabric_;
    const bool sleeps_;
    std::vector<std::unique_ptr<Post>> posts_;
    std::vector<transport::Completion> done_;
};

// Byte i is 131 i + seed + i / 256; so they repeat after 64 KiB.
inline std::vector<char> pattern(std::size_t bytes, int seed) {
    constexpr std::size_t period = 1 << 16;
    std::vector<char> data(bytes);
    for (std::size_t i = 0; i < std::min(bytes, period); ++i)
        data[i] = static_cast<char>(i * 131 + seed + (i >> 8));
    for (std::size_t i = period; i < bytes; i += period)
        std::copy_n(data.begin(), std::min(period, bytes - i), data.begin() + static_cast<std::ptrdiff_t>(i));
    return data;
}

}  // namespace hocket::test
