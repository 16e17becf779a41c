// Messages between ranks in one process: their order, and the times without room for one, are random.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::test {

// Holds all messages on their way. Some are taken from their sender at once, as most providers take small
// ones; the others stay in its buffers until their receiver asks for them.
class Post {
  public:
    explicit Post(unsigned seed) : random_(seed) {}

    std::uint32_t draw(std::uint32_t below) { return random_() % below; }

    void send(int from, int to, std::uint64_t tag, std::uint32_t checksum,
              std::span<const transport::Segment> segments, transport::Message& message) {
        Parcel parcel{from, to, tag, checksum, segments, &message, {}};
        if (draw(2) == 0) {
            parcel.bytes = bytes_of(segments);
            parcel.message = nullptr;
            done_.push_back({from, completed(message)});
        }
        parcels_.push_back(std::move(parcel));
    }

    void receive(int from, int to, std::uint64_t tag, std::span<const transport::Segment> segments,
                 transport::Message& message) {
        requests_.push_back({from, to, tag, segments, &message});
    }

    // Takes a completion of the rank's, if there is one.
    bool take(int rank, transport::Completion& completion) {
        deliver(rank);
        std::vector<std::size_t> mine;
        for (std::size_t i = 0; i < done_.size(); ++i)
            if (done_[i].rank == rank) mine.push_back(i);
        if (mine.empty()) return false;
        const auto one = done_.begin() + static_cast<std::ptrdiff_t>(mine[draw(mine.size())]);
        completion = one->completion;
        done_.erase(one);
        return true;
    }

    bool is_empty() const { return parcels_.empty() && requests_.empty() && done_.empty(); }

  private:
    struct Parcel {
        int from, to;
        std::uint64_t tag;
        std::uint32_t checksum;
        std::span<const transport::Segment> segments;
        transport::Message* message;   // null: it has been taken from its sender
        std::vector<std::byte> bytes;  // then
    };
    struct Request {
        int from, to;
        std::uint64_t tag;
        std::span<const transport::Segment> segments;
        transport::Message* message;
    };
    struct Done {
        int rank;
        transport::Completion completion;
    };

    static transport::Completion completed(transport::Message& message) {
        transport::Completion completion;
        completion.message = &message;
        completion.ok = true;
        return completion;
    }

    static std::vector<std::byte> bytes_of(std::span<const transport::Segment> segments) {
        std::vector<std::byte> bytes(transport::bytes_in(segments));
        transport::SegmentCursor(segments).read(bytes.data(), bytes.size());
        return bytes;
    }

    // Delivers one message that the rank has asked for; messages of one sender and tag arrive in order.
    void deliver(int rank) {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < requests_.size(); ++i)
            if (requests_[i].to == rank) order.push_back(i);
        std::shuffle(order.begin(), order.end(), random_);
        for (const std::size_t i : order) {
            const Request request = requests_[i];
            const auto is_for = [&](const auto& other) {
                return other.from == request.from && other.to == request.to && other.tag == request.tag;
            };
            const auto first = std::find_if(requests_.begin(), requests_.end(), is_for);
            const auto parcel = std::find_if(parcels_.begin(), parcels_.end(), is_for);
            if (parcel == parcels_.end() || first->message != request.message) continue;
            hand_over(*parcel, request);
            parcels_.erase(parcel);
            requests_.erase(first);
            return;
        }
    }

    void hand_over(const Parcel& parcel, const Request& request) {
        const std::vector<std::byte> bytes = parcel.message ? bytes_of(parcel.segments) : parcel.bytes;
        const std::size_t room = transport::bytes_in(request.segments);
        transport::SegmentCursor(request.segments).write(bytes.data(), std::min(room, bytes.size()));
        transport::Completion received = completed(*request.message);
        received.bytes = bytes.size();
        received.checksum = parcel.checksum;
        received.truncated = bytes.size() > room;
        done_.push_back({request.to, received});
        if (parcel.message) done_.push_back({parcel.from, completed(*parcel.message)});
    }

    std::mt19937 random_;
    std::deque<Parcel> parcels_;
    std::deque<Request> requests_;
    std::deque<Done> done_;
};

// A rank's end of the post.
class PostBox final : public transport::Fabric {
  public:
    PostBox(Post& post, int rank) : post_(post), rank_(rank) {}

    std::string provider() const override { return "post"; }
    std::string why() const override { return "all ranks are one process"; }
    std::string local_address() const override { return std::to_string(rank_); }
    void connect(std::span<const std::string>, const transport::Patience&) override {}
    bool send(int peer, std::uint64_t tag, std::uint32_t checksum,
              std::span<const transport::Segment> segments, transport::Message& message) override {
        if (post_.draw(4) == 0) return false;
        post_.send(rank_, peer, tag, checksum, segments, message);
        return true;
    }
    bool receive(int peer, std::uint64_t tag, std::span<const transport::Segment> segments,
                 transport::Message& message) override {
        if (post_.draw(4) == 0) return false;
        post_.receive(peer, rank_, tag, segments, message);
        return true;
    }
    std::size_t poll(std::span<transport::Completion> completions) override {
        return post_.take(rank_, completions.front()) ? 1 : 0;
    }
    void wait(std::span<pollfd>, std::chrono::microseconds) override {}
    void abandon() override {}

  private:
    Post& post_;
    const int rank_;
};

}  // namespace hocket::test
