// The part of Member that runs on its own thread.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.hpp"
#include "runtime/transport/join.hpp"
#include "runtime/transport/member.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto goodbye_time = 450ms;

}  // namespace

void Member::run() {
    try {
        for (;;) {
            {
                const std::lock_guard lock(mutex_);
                if (leaving_) break;
            }
            step();
        }
        say_goodbye();
    } catch (const std::exception& error) {
        note_lost(rank_, fmt::format("its connections could not be served any more: {}", error.what()));
    }
    for (Link& link : links_) link.close();
}

void Member::step() {
    send_pending_blob();
    send_pending_report();
    std::vector<pollfd> set{{wake_.fd(), POLLIN, 0}};
    for (const Link& link : links_)
        set.push_back({link.fd(), static_cast<short>(link.has_output() ? POLLIN | POLLOUT : POLLIN), 0});
    poll_until(set, next_beat_);
    if (set[0].revents) wake_.clear();
    for (std::size_t i = 0; i < links_.size(); ++i) {
        if (set[i + 1].revents & ~POLLOUT) listen_to(i);
        if (links_[i].has_output()) links_[i].flush();
    }
    if (Clock::now() >= next_beat_) {
        next_beat_ = Clock::now() + heartbeat_interval_;
        tell_all(FrameType::heartbeat, {});
        judge_silence();
    }
}

void Member::say_goodbye() {
    const auto deadline = Clock::now() + goodbye_time;
    send_pending_report();
    tell_all(FrameType::goodbye, {});
    std::vector<bool> stopped(links_.size());
    // Until the peer has closed its side too: closing earlier could reset the connection and lose what the
    // peer has not read yet.
    while (std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.is_open(); })) {
        std::vector<pollfd> set;
        for (std::size_t i = 0; i < links_.size(); ++i) {
            if (!links_[i].has_output() && !stopped[i]) links_[i].stop_sending(), stopped[i] = true;
            set.push_back({links_[i].fd(), static_cast<short>(stopped[i] ? POLLIN : POLLIN | POLLOUT), 0});
        }
        if (poll_until(set, deadline) == 0) return;
        for (std::size_t i = 0; i < links_.size(); ++i) {
            if (!set[i].revents) continue;
            links_[i].flush();
            if (links_[i].receive() != Link::State::open) links_[i].close();
        }
        if (Clock::now() >= deadline) return;
    }
}

void Member::judge_silence() {
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const auto silent = [&] { return Clock::now() - links_[i].last_heard() > heartbeat_timeout_; };
        if (!links_[i].is_open() || !silent()) continue;
        listen_to(i);  // if it was this process that stood still, the heartbeats are waiting to be read
        if (!links_[i].is_open() || !silent()) continue;
        note_lost(rank_of(i),
                  fmt::format("no heartbeat for {} (its process is stopped, or its host cannot be reached)",
                              seconds_text(heartbeat_timeout_)));
        links_[i].close();
    }
}

void Member::send_pending_blob() {
    std::optional<std::string> blob;
    std::uint32_t number;
    {
        const std::lock_guard lock(mutex_);
        blob = std::exchange(pending_blob_, std::nullopt);
        number = gather_number_;
    }
    if (!blob) return;
    if (rank_ == 0) {
        take_part(0, number, *blob);
    } else {
        tell_all(FrameType::gather, PayloadWriter().u32(number).bytes(*blob).text());
    }
}

void Member::send_pending_report() {
    std::optional<std::string> text;
    {
        const std::lock_guard lock(mutex_);
        text = std::exchange(pending_report_, std::nullopt);
    }
    if (!text) return;
    rank_ == 0 ? note_report(0, *text) : tell_all(FrameType::report, *text);
}

void Member::listen_to(std::size_t index) {
    Link& link = links_[index];
    if (!link.is_open()) return;
    const int from = rank_of(index);
    const Link::State state = link.receive();
    try {
        while (const auto frame = link.parser().next()) handle(from, *frame);
    } catch (const ProtocolError& error) {
        note_lost(from, error.what());
        link.close();
        return;
    }
    if (state == Link::State::open) return;
    if (!has_left(from))
        note_lost(from, state == Link::State::closed ? "its connection closed (the process ended)"
                                                     : "its connection was reset (the process ended)");
    link.close();
}

void Member::handle(int from, const Frame& frame) {
    if (frame.type == FrameType::heartbeat) return;
    if (frame.type == FrameType::goodbye) return note_left(from);
    rank_ == 0 ? handle_at_host(from, frame) : handle_at_guest(frame);
}

void Member::handle_at_host(int from, const Frame& frame) {
    if (frame.type == FrameType::report) return note_report(from, frame.payload);
    if (frame.type != FrameType::gather) throw ProtocolError("it sent a message that only rank 0 may send");
    PayloadReader reader(frame.payload);
    const std::uint32_t number = reader.u32();
    take_part(from, number, reader.rest());
}

void Member::handle_at_guest(const Frame& frame) {
    PayloadReader reader(frame.payload);
    if (frame.type == FrameType::waiting) return;  // sent just before the start
    const std::uint32_t first = reader.u32();
    const auto named_rank = [&](std::uint32_t rank) {
        if (rank >= static_cast<std::uint32_t>(world_size_))
            throw ProtocolError("it named a rank that does not exist");
        return static_cast<int>(rank);
    };
    switch (frame.type) {
        case FrameType::gathered: {
            const int rank = named_rank(reader.u32());
            return take_part(rank, first, reader.rest());
        }
        case FrameType::lost:
            return note_lost(named_rank(first), std::string(reader.rest()));
        case FrameType::left:
            return note_left(named_rank(first));
        case FrameType::reported:
            return note_report(named_rank(first), reader.rest());
        default:
            throw ProtocolError("it sent a message that has no place here");
    }
}

void Member::take_part(int from, std::uint32_t number, std::string_view blob) {
    std::vector<std::string> whole;
    {
        const std::lock_guard lock(mutex_);
        if (number != gather_number_ || parts_[from])
            throw ProtocolError("its all_gather calls are out of step with the other ranks'");
        parts_[from] = std::string(blob);
        if (!std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part.has_value(); }))
            return;
        for (auto& part : parts_) whole.push_back(*std::exchange(part, std::nullopt));
        ++gather_number_;
    }
    // Rank 0 tells the others before it acts itself: its process may end as soon as its caller knows.
    if (rank_ == 0)
        for (std::size_t rank = 0; rank < whole.size(); ++rank)
            tell_all(
                FrameType::gathered,
                PayloadWriter().u32(number).u32(static_cast<std::uint32_t>(rank)).bytes(whole[rank]).text());
    const std::lock_guard lock(mutex_);
    result_ = std::move(whole);
    changed_.notify_all();
}

void Member::note_lost(int rank, const std::string& reason) {
    if (loss()) return;
    if (rank_ == 0)
        tell_all(FrameType::lost, PayloadWriter().u32(static_cast<std::uint32_t>(rank)).bytes(reason).text());
    {
        const std::lock_guard lock(mutex_);
        loss_ = Loss{rank, reason};
        changed_.notify_all();
    }
    event_.raise();
}

void Member::note_left(int rank) {
    if (rank_ == 0) tell_all(FrameType::left, PayloadWriter().u32(static_cast<std::uint32_t>(rank)).text());
    {
        const std::lock_guard lock(mutex_);
        left_[rank] = true;
        changed_.notify_all();
    }
    event_.raise();
}

// Rank 0 decides which report is the first. The later ones tell its author how the others saw it.
void Member::note_report(int rank, std::string_view text) {
    if (text.size() > max_report_size) throw ProtocolError("its report is longer than reports may be");
    if (loss() || reported_by(rank)) return;
    if (rank_ == 0) {
        const auto first = reported();
        const std::string payload = PayloadWriter().u32(static_cast<std::uint32_t>(rank)).bytes(text).text();
        if (!first) tell_all(FrameType::reported, payload);
        if (first && first->rank != 0) {
            Link& author = links_[static_cast<std::size_t>(first->rank)];
            author.queue(FrameType::reported, payload);
            author.flush();
        }
    }
    {
        const std::lock_guard lock(mutex_);
        reports_.push_back({rank, std::string(text)});
        changed_.notify_all();
    }
    event_.raise();
}

void Member::tell_all(FrameType type, std::string_view payload) {
    const auto frame = std::make_shared<const std::string>(encode_frame(type, payload));
    for (Link& link : links_) {
        if (type == FrameType::heartbeat && link.has_output()) continue;  // output enough to show life
        link.queue(frame);
        link.flush();
    }
}

}  // namespace hocket::transport
