#include "runtime/transport/streams/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <mutex>
#include <optional>

#include "runtime/base/environment.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"
#include "runtime/transport/net/sealing.hpp"
#include "runtime/transport/streams/fan_in.hpp"
#include "runtime/transport/streams/mesh.hpp"
#include "runtime/transport/streams/rails.hpp"
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
constexpr auto between_looks_at_lanes = 1s;

bool paces_senders() {
    const Environment environment = process_environment();
    return EnvironmentReader(environment).is_on("HOCKET_PACING", true);
}

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
    const std::string& lost_rails() const override;
    std::string local_address() const override { return mesh_.invitation(); }
    std::string peer_address(int peer) const override;
    void connect(std::span<const std::string> addresses, const Patience& patience) override;
    bool send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
              Message& message) override;
    bool receive(int peer, std::uint64_t tag, std::span<const Segment> segments, Message& message) override;
    std::size_t poll(std::span<Completion> completions) override;
    void wait(std::span<pollfd> others, std::chrono::microseconds at_most) override;
    void abandon() override;

  private:
    Rails& rails(int peer) const;
    bool move();
    void receive_rest();
    void look_at_lanes();
    void tell_news();
    void clear_the_way();
    void require_open() const;

    const bool encrypts_ = encrypts_connections();
    StreamMesh mesh_;
    std::vector<std::unique_ptr<Rails>> by_rank_;  // null where there is no connection
    std::vector<Rails*> peers_;                    // the others
    Stripes stripes_;
    const bool is_paced_ = paces_senders();
    FanIn fan_in_;
    std::vector<Completion> done_;  // from taken_ on
    std::size_t taken_ = 0;
    std::optional<Clock::time_point> obstructed_since_;
    std::vector<pollfd> wait_set_;
    bool has_lanes_ = false;  // some peer has several
    Clock::time_point lanes_looked_at_{};
    bool given_up_ = false;
    mutable std::mutex told_mutex_;
    std::deque<std::string> told_;  // of lost rails; references to the texts stay valid
};

void Streams::connect(std::span<const std::string> addresses, const Patience& patience) {
    auto peers = mesh_.connect(addresses, patience);
    done_.reserve(usual_completions);
    std::size_t connections = 0;
    for (auto& sockets : peers) {
        auto& made = by_rank_.emplace_back();
        if (sockets.empty()) continue;
        std::vector<std::string> names;
        for (const Socket& socket : sockets) {
            if ((socket.sealed() != nullptr) != encrypts_)
                throw Error(Status::internal, "a connection is not encrypted as this process says");
            names.push_back(sockets.size() > 1 ? mesh_.rail_text(socket) : "");
        }
        connections += sockets.size();
        made = std::make_unique<Rails>(std::move(sockets), std::move(names));
        if (is_paced_)
            for (Stream& stream : made->streams()) fan_in_.add(stream);
        has_lanes_ |= made->lanes() > 1;
        peers_.push_back(made.get());
    }
    wait_set_.reserve(connections + usual_others);
}

void Streams::require_open() const {
    if (given_up_)
        throw Error(Status::transport,
                    "the connections were given up after a failure; only destruction is left");
}

Rails& Streams::rails(int peer) const {
    require_open();
    Rails* const found = by_rank_.at(static_cast<std::size_t>(peer)).get();
    if (!found) throw Error(Status::internal, "a message for a rank that there is no connection with");
    return *found;
}

std::string Streams::peer_address(int peer) const {
    const auto address = connected_to(rails(peer).streams()[0].socket());
    return address ? address->text() : "";
}

// Asks for the further stripes of messages whose first ones have come.
void Streams::receive_rest() {
    for (Rails* peer : peers_)
        if (peer->has_striped()) stripes_.receive_rest(*peer);
}

bool Streams::send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                   Message& message) {
    Rails& to = rails(peer);
    if (to.left() > 1 && bytes_in(segments) >= least_striped)
        stripes_.send(to, tag, checksum, segments, message, done_);
    else
        to.send(tag, checksum, segments, message, done_);
    return true;
}

bool Streams::receive(int peer, std::uint64_t tag, std::span<const Segment> segments, Message& message) {
    rails(peer).receive(tag, segments, message);
    receive_rest();
    return true;
}

bool Streams::move() {
    bool moved = false;
    for (Rails* peer : peers_) moved |= peer->move(done_);
    receive_rest();
    stripes_.settle(done_, taken_);
    if (moved) fan_in_.look();
    if (has_lanes_) tell_news();
    return moved;
}

void Streams::look_at_lanes() {
    const auto now = Clock::now();
    if (now - lanes_looked_at_ < between_looks_at_lanes) return;
    lanes_looked_at_ = now;
    for (Rails* peer : peers_) peer->look(done_);
}

void Streams::tell_news() {
    for (Rails* peer : peers_)
        for (const std::string& text : peer->take_news()) {
            log_line("hocket: warning: the connection by {}", text);
            const std::lock_guard lock(told_mutex_);
            const std::string before = told_.empty() ? "" : told_.back() + "; ";
            told_.push_back(before + text);
        }
}

const std::string& Streams::lost_rails() const {
    static const std::string none;
    const std::lock_guard lock(told_mutex_);
    return told_.empty() ? none : told_.back();
}

// Keeps unexpected messages in memory also for callers that never sleep.
void Streams::clear_the_way() {
    if (std::none_of(peers_.begin(), peers_.end(), [](const Rails* peer) { return peer->is_obstructed(); }))
        return obstructed_since_.reset();
    const auto now = Clock::now();
    if (!obstructed_since_) obstructed_since_ = now;
    if (now - *obstructed_since_ < way_is_made_after) return;
    for (Rails* peer : peers_) peer->make_way();
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
    for (Rails* peer : peers_) {
        is_busy |= peer->make_way() || peer->move(done_);
        peer->add_interests(wait_set_);
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
    peers_.clear();
    by_rank_.clear();
}

}  // namespace

std::unique_ptr<Fabric> open_streams(const std::string& source_address,
                                     std::vector<std::string> wanted_nics) {
    return std::make_unique<Streams>(source_address, std::move(wanted_nics));
}

}  // namespace hocket::transport
