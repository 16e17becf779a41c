#include "runtime/transport/streams/rails.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// TCP sends again after a fifth of a second, and then after twice the time. A rail that is silent for so
// long, while another one answers, is done without; to have been wrong costs its share of the rate.
constexpr Clock::duration rail_is_lost_after = 3s;
// Longer than outages that end nothing (docs/running.md): if nothing answers, the rails are not to blame.
constexpr Clock::duration host_is_lost_after = 25s;

Completion end_of(Message* sent, const std::string& error) {
    Completion completion;
    completion.message = sent;
    completion.ok = error.empty();
    completion.error = error;
    return completion;
}

}  // namespace

Rails::Rails(std::vector<Socket> connections, std::vector<std::string> names)
    : names_(std::move(names)),
      reasons_(connections.size()),
      overdue_(connections.size()),
      left_(connections.size()) {
    if (connections.size() > 1) {
        notes_ = std::make_unique<RailNotes>();
        notes_->lanes = connections.size();
    }
    for (std::size_t rail = 0; rail < connections.size(); ++rail) {
        streams_.emplace_back(std::move(connections[rail]), notes_.get());
        lanes_.push_back({rail});
    }
}

std::size_t Rails::first_left() const {
    std::size_t rail = 0;
    while (is_lost(rail)) ++rail;
    return rail;
}

void Rails::send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                 Message& message, std::vector<Completion>& done, Part part) {
    if (!notes_) return streams_[0].send(tag, checksum, segments, message, done, part);
    Lane& lane = lanes_[part.lane];
    lane.sent.push_back({tag, checksum, part.stripes, segments, &message});
    if (!is_lost(lane.rail)) post(part.lane, lane.sent.back(), done);
}

void Rails::post(std::uint16_t lane, const Sent& sent, std::vector<Completion>& done) {
    streams_[lanes_[lane].rail].send(sent.tag, sent.checksum, sent.segments, *sent.message, done,
                                     {sent.stripes, lane});
}

void Rails::receive(std::uint64_t tag, std::span<const Segment> segments, Message& message,
                    std::uint16_t lane) {
    const std::size_t rail = notes_ && is_lost(lane) ? first_left() : lane;
    streams_[rail].receive(tag, segments, message, lane);
}

bool Rails::move(std::vector<Completion>& done) {
    if (!notes_) return streams_[0].move(done);
    update_notes();
    bool moved = false;
    for (std::size_t rail = 0; rail < streams_.size(); ++rail)
        if (!is_lost(rail)) moved |= streams_[rail].move(done);
    moved |= lose_broken(done);
    if (!has_failed_) moved |= hear(done);
    if (!broken_.empty()) moved |= fail(done);
    return moved;
}

void Rails::update_notes() {
    notes_->must_be_heard =
        std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.sent.empty(); });
    notes_->are_read =
        notes_->must_be_heard || std::any_of(streams_.begin(), streams_.end(),
                                             [](const Stream& stream) { return stream.has_receives(); });
}

bool Rails::lose_broken(std::vector<Completion>& done) {
    bool any = false;
    for (std::size_t rail = 0; rail < streams_.size(); ++rail) {
        if (is_lost(rail) || streams_[rail].broken().empty() || !broken_.empty()) continue;
        take_rest(rail, done);
        lose(rail, streams_[rail].broken(), done);
        any = true;
    }
    return any;
}

// Among what has come may be a report of a loss, and what is behind it is read only once that is done here.
void Rails::take_rest(std::size_t rail, std::vector<Completion>& done) {
    do {
        lose_given_up(done);
        if (is_lost(rail) || !broken_.empty()) return;
        streams_[rail].take_rest(done);
    } while (notes_->is_behind());
}

void Rails::lose_given_up(std::vector<Completion>& done) {
    for (std::size_t rail = 0; rail < streams_.size(); ++rail)
        if ((notes_->heard.lost >> rail & 1) != 0) lose(rail, "the other end has given it up", done);
}

void Rails::lose(std::size_t rail, const std::string& why, std::vector<Completion>& done) {
    if (is_lost(rail) || !broken_.empty()) return;
    streams_[rail].take_rest(done);
    if (left_ == 1) {
        broken_ = fmt::format("{}: {}", names_[rail], why);
        return;
    }
    --left_;
    notes_->own.lost |= std::uint64_t{1} << rail;
    notes_->is_own_news = true;
    reasons_[rail] = why;
    streams_[rail].retire(streams_[first_left()], done);
}

// Does what the other end's reports allow. Own losses must be said before messages go another way.
bool Rails::hear(std::vector<Completion>& done) {
    const auto has_news_of = [&](std::size_t rail) {
        return (notes_->heard.lost >> rail & 1) != 0 && (moved_ >> rail & 1) == 0;
    };
    lose_given_up(done);
    bool moved = take_acknowledgements(done);  // also those that came before the end of a connection
    say(done);
    for (std::size_t rail = 0; rail < streams_.size(); ++rail) {
        if (!has_news_of(rail) || !is_lost(rail)) continue;
        move_lanes(rail, done);
        moved = true;
    }
    return moved;
}

bool Rails::take_acknowledgements(std::vector<Completion>& done) {
    const std::size_t before = done.size();
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        Lane& lane = lanes_[i];
        const std::uint64_t taken = notes_->heard.taken[i];
        if (taken > notes_->sent[i]) {
            give_up("the peer acknowledges messages that it was not sent");
            break;
        }
        for (; lane.acknowledged < taken; ++lane.acknowledged) {
            done.push_back(end_of(lane.sent.front().message, ""));
            lane.sent.pop_front();
        }
    }
    return done.size() > before;
}

// Both ends have given the connection up: what the other one has not received goes over another one.
void Rails::move_lanes(std::size_t from, std::vector<Completion>& done) {
    moved_ |= std::uint64_t{1} << from;
    const std::size_t to = first_left();
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (lanes_[i].rail != from) continue;
        lanes_[i].rail = to;
        notes_->sent[i] = lanes_[i].acknowledged;
        for (const Sent& sent : lanes_[i].sent) post(static_cast<std::uint16_t>(i), sent, done);
    }
    news_.push_back(
        fmt::format("{} was lost: {}; its messages go over {}", names_[from], reasons_[from], names_[to]));
}

void Rails::say(std::vector<Completion>& done) {
    if (!std::exchange(notes_->is_own_news, false)) return;
    for (std::size_t rail = 0; rail < streams_.size(); ++rail)
        if (!is_lost(rail)) streams_[rail].say(notes_->own, done);
}

bool Rails::fail(std::vector<Completion>& done) {
    bool any = false;
    has_failed_ = true;
    for (std::size_t rail = 0; rail < streams_.size(); ++rail) {
        if (is_lost(rail)) continue;
        streams_[rail].give_up(broken_);
        any |= streams_[rail].break_off(broken_, done);
    }
    for (Lane& lane : lanes_)
        for (const Sent& sent : std::exchange(lane.sent, {})) {
            done.push_back(end_of(sent.message, broken_));
            any = true;
        }
    return any;
}

void Rails::give_up(const std::string& why) {
    if (!notes_) return streams_[0].give_up(why);
    if (!broken_.empty()) return;
    broken_ = why;
}

void Rails::look(std::vector<Completion>& done) {
    if (!notes_) return;
    const auto now = Clock::now();
    Clock::duration last_answer = Clock::duration::max();  // of any
    std::vector<Clock::duration> silences(streams_.size());
    for (std::size_t rail = 0; rail < streams_.size(); ++rail) {
        if (is_lost(rail)) continue;
        const Answers answers = streams_[rail].answers();
        last_answer = std::min(last_answer, answers.last_answer);
        silences[rail] = overdue_[rail].at(answers, now);
    }
    for (std::size_t rail = 0; rail < streams_.size(); ++rail) {
        // The others must have something to answer.
        if (silences[rail] > rail_is_lost_after / 2) notes_->is_own_news = true;
        const bool others_answer = last_answer < rail_is_lost_after / 2;
        const auto limit = others_answer ? rail_is_lost_after : host_is_lost_after;
        if (silences[rail] > limit) lose(rail, fmt::format("no answer for {} s", limit / 1s), done);
    }
    // A report of the other end may come after an unexpected message.
    if (notes_->are_read)
        for (std::size_t rail = 0; rail < streams_.size(); ++rail)
            if (!is_lost(rail)) streams_[rail].make_way(true);
}

bool Rails::is_obstructed() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const Stream& stream) { return stream.is_obstructed(); });
}

bool Rails::make_way() {
    bool any = false;
    for (Stream& stream : streams_) any |= stream.make_way();
    return any;
}

bool Rails::has_striped() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const Stream& stream) { return stream.has_striped(); });
}

std::vector<Stream::Striped> Rails::take_striped() {
    std::vector<Stream::Striped> all;
    for (Stream& stream : streams_) {
        auto some = stream.take_striped();
        std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
}

void Rails::add_interests(std::vector<pollfd>& set) const {
    for (const Stream& stream : streams_) set.push_back(stream.interest());
}

}  // namespace hocket::transport
