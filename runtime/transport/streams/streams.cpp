#include "runtime/transport/streams/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/sealing.hpp"
#include "runtime/transport/streams/mesh.hpp"
#include "runtime/transport/streams/stream.hpp"
#include "runtime/transport/streams/stripes.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t usual_completions = 512, usual_others = 4;  // so that a warm start allocates nothing
// How often all streams are moved before poll() returns.
constexpr int most_turns = 16;
// How long an unexpected message may block others: its receive may still be posted, which saves a copy.
constexpr auto way_is_made_after = 1ms;
// The least message that the lanes of a peer carry together: a shorter one has as much delay as bytes.
constexpr std::size_t least_striped = 256 * 1024;
// A lane that is cut would otherwise hold up a message until the operation's deadline, which names no NIC.
// Longer than outages that end nothing (docs/running.md).
constexpr auto lane_is_lost_after = 25s, between_looks_at_lanes = 1s;

class Streams : public Fabric {
  public:
    Streams(const std::string& source_address, std::vector<std::string> wanted_nics)
        : mesh_(source_address, std::move(wanted_nics)) {}

    // A name of its own, because tables of measured schedules are kept by it.
    std::string provider() const override { return encrypts_ ? "encrypted tcp" : "tcp"; }
    std::string why() const override {
        const std::string way =
            "straight over TCP: faster at every size measured than libfabric's tcp "
            "(docs/decisions/streams-own-tcp.md)";
        return encrypts_ ? way + fmt::format("; HOCKET_ENCRYPTION=on, {} here",
                                             name_of(best_cipher(known_ciphers())))
                         : way;
    }
    std::string local_address() const override { return mesh_.invitation(); }
    void connect(std::span<const std::string> addresses, const Patience& patience) override;
    bool send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
              Message& message) override;
    bool receive(int peer, std::uint64_t tag, std::span<const Segment> segments, Message& message) override;
    std::size_t poll(std::span<Completion> completions) override;
    void wait(std::span<pollfd> others, std::chrono::microseconds at_most) override;
    void abandon() override;

  private:
    Lanes lanes(int peer);
    bool move();
    void receive_rest();
    void look_at_lanes();
    void clear_the_way();
    void require_open() const;

    const bool encrypts_ = encrypts_connections();
    StreamMesh mesh_;
    std::vector<Stream> streams_;  // of the connected peers; those of one in a row
    std::vector<std::string> names_;
    std::vector<std::size_t> first_stream_;  // by rank, and one more for the end
    Stripes stripes_;
    std::vector<Completion> done_;  // from taken_ on
    std::size_t taken_ = 0;
    std::optional<Clock::time_point> obstructed_since_;
    std::vector<pollfd> wait_set_;
    bool has_lanes_ = false;  // some peer has several
    Clock::time_point lanes_looked_at_{};
    bool given_up_ = false;
};

void Streams::connect(std::span<const std::string> addresses, const Patience& patience) {
    auto peers = mesh_.connect(addresses, patience);
    done_.reserve(usual_completions);
    for (auto& sockets : peers) {
        first_stream_.push_back(streams_.size());
        const bool are_lanes = sockets.size() > 1;
        for (Socket& socket : sockets) {
            if ((socket.sealed() != nullptr) != encrypts_)
                throw Error(Status::internal, "a connection is not encrypted as this process says");
            has_lanes_ |= are_lanes;
            names_.push_back(are_lanes ? mesh_.rail_text(socket) : "");
            streams_.emplace_back(std::move(socket));
        }
    }
    first_stream_.push_back(streams_.size());
    wait_set_.reserve(streams_.size() + usual_others);
}

void Streams::require_open() const {
    if (given_up_)
        throw Error(Status::transport,
                    "the connections were given up after a failure; only destruction is left");
}

Lanes Streams::lanes(int peer) {
    require_open();
    const auto rank = static_cast<std::size_t>(peer);
    const std::size_t first = first_stream_.at(rank), count = first_stream_.at(rank + 1) - first;
    if (count == 0) throw Error(Status::internal, "a message for a rank that there is no connection with");
    return {std::span(streams_).subspan(first, count), std::span(names_).subspan(first, count)};
}

// Asks for the further stripes of messages whose first ones have come.
void Streams::receive_rest() {
    for (std::size_t rank = 0; rank + 1 < first_stream_.size(); ++rank) {
        const std::size_t first = first_stream_[rank];
        if (first < first_stream_[rank + 1] && streams_[first].has_striped())
            stripes_.receive_rest(lanes(static_cast<int>(rank)));
    }
}

bool Streams::send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                   Message& message) {
    const Lanes to = lanes(peer);
    if (to.streams.size() > 1 && bytes_in(segments) >= least_striped)
        stripes_.send(to, tag, checksum, segments, message, done_);
    else
        to.streams[0].send(tag, checksum, segments, message, done_);
    return true;
}

bool Streams::receive(int peer, std::uint64_t tag, std::span<const Segment> segments, Message& message) {
    lanes(peer).streams[0].receive(tag, segments, message);
    receive_rest();
    return true;
}

bool Streams::move() {
    bool moved = false;
    for (Stream& stream : streams_) moved |= stream.move(done_);
    receive_rest();
    stripes_.settle(done_, taken_);
    return moved;
}

void Streams::look_at_lanes() {
    const auto now = Clock::now();
    if (now - lanes_looked_at_ < between_looks_at_lanes) return;
    lanes_looked_at_ = now;
    for (std::size_t i = 0; i < streams_.size(); ++i)
        if (!names_[i].empty() && streams_[i].is_unanswered_for(lane_is_lost_after))
            streams_[i].give_up(fmt::format("no answer for {} s", lane_is_lost_after.count()));
}

// Keeps unexpected messages in memory also for callers that never sleep.
void Streams::clear_the_way() {
    if (std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.is_obstructed(); }))
        return obstructed_since_.reset();
    const auto now = Clock::now();
    if (!obstructed_since_) obstructed_since_ = now;
    if (now - *obstructed_since_ < way_is_made_after) return;
    for (Stream& stream : streams_) stream.make_way();
}

// While bytes move and nothing is complete, moving on is better than returning.
std::size_t Streams::poll(std::span<Completion> completions) {
    require_open();
    if (has_lanes_) look_at_lanes();
    for (int turn = 0; move() && taken_ == done_.size() && turn < most_turns; ++turn) {
    }
    if (taken_ == done_.size()) clear_the_way();
    const std::size_t n = std::min(completions.size(), done_.size() - taken_);
    std::move(done_.begin() + static_cast<std::ptrdiff_t>(taken_),
              done_.begin() + static_cast<std::ptrdiff_t>(taken_ + n), completions.begin());
    taken_ += n;
    if (taken_ >= done_.size() / 2) {  // the list may never be empty
        done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(taken_));
        taken_ = 0;
    }
    return n;
}

void Streams::wait(std::span<pollfd> others, std::chrono::microseconds at_most) {
    if (has_lanes_) look_at_lanes();
    bool is_busy = taken_ < done_.size();
    wait_set_.assign(others.begin(), others.end());
    for (Stream& stream : streams_) {
        is_busy |= stream.make_way() || stream.move(done_);
        wait_set_.push_back(stream.interest());
    }
    receive_rest();
    stripes_.settle(done_, taken_);
    const auto left = is_busy ? 0us : std::max(at_most, 0us);
    const timespec time{static_cast<time_t>(left.count() / 1000000),
                        static_cast<long>(left.count() % 1000000 * 1000)};
    if (ppoll(wait_set_.data(), wait_set_.size(), &time, nullptr) < 0) {
        if (errno != EINTR) throw poll_error(errno, wait_set_.size());
        for (pollfd& entry : wait_set_) entry.revents = 0;  // the caller polls by itself
    }
    std::copy_n(wait_set_.begin(), others.size(), others.begin());
}

void Streams::abandon() {
    given_up_ = true;
    streams_.clear();
}

}  // namespace

std::unique_ptr<Fabric> open_streams(const std::string& source_address,
                                     std::vector<std::string> wanted_nics) {
    return std::make_unique<Streams>(source_address, std::move(wanted_nics));
}

}  // namespace hocket::transport
