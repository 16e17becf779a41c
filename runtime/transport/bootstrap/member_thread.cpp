// The part of Member that runs on its own thread.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/member.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto goodbye_time = 450ms, goodbye_look = 50ms;

// Ranks often leave together. If each departure were sent separately, n departures would take n * n messages.
constexpr auto departure_delay = 1ms;

// Returns why a connection ended. silence: its length before the connection ended. A peer that was cut off
// for too long may have ended since.
std::string reason_of_end(const Link& link, Link::State state, Clock::duration silence,
                          Clock::duration timeout) {
    std::string end = state == Link::State::closed  ? "its connection closed"
                      : state == Link::State::reset ? "its connection was reset"
                                                    : "its connection failed: " + link.failure();
    if (silence > timeout)
        return fmt::format("no heartbeat for {:.1f} s, then {} (its host was down, or the link to it down)",
                           std::chrono::duration<double>(silence).count(), end);
    if (state == Link::State::damaged) return end;
    return end + (state == Link::State::failed ? " (its host is down, or the link to it is down)"
                                               : " (the process ended)");
}

}  // namespace

void Member::run() {
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return has_begun_ || leaving_; });
        if (!has_begun_) return;
    }
    try {
        // Frames that came together with the end of joining have been read already, so poll(2) would not
        // report them.
        for (std::size_t i = 0; i < links_.size(); ++i) listen_to(i);
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
    send_pending_meeting();
    send_pending_comparison();
    std::vector<pollfd> set{{wake_.fd(), POLLIN, 0}};
    for (const Link& link : links_)
        set.push_back({link.fd(), static_cast<short>(link.has_output() ? POLLIN | POLLOUT : POLLIN), 0});
    auto until = std::min(next_beat_, comparison_.due().value_or(next_beat_));
    if (!departures_.empty()) until = std::min(until, departures_due_);
    poll_until(set, until);
    const auto now = Clock::now();
    note_absence(now);
    if (set[0].revents) wake_.clear();
    for (std::size_t i = 0; i < links_.size(); ++i) {
        if (set[i + 1].revents & ~POLLOUT) listen_to(i);
        if (links_[i].has_output()) links_[i].flush();
    }
    if (Clock::now() >= departures_due_) send_departures();
    look_at_difference();
    if (Clock::now() >= next_beat_) {
        next_beat_ = Clock::now() + times_.interval;
        // Output that is still queued serves as a heartbeat.
        for (Link& link : links_)
            if (!link.has_output()) link.queue(FrameType::heartbeat), link.flush();
        judge_silence(now);
    }
}

// Waits until the peers have stopped sending, because closing earlier could reset the connection and lose
// data that they have not read yet. A guest answers rank 0's goodbye by stopping. Rank 0 stays until all
// guests have stopped, so that it passes on any earlier report of theirs.
void Member::say_goodbye() {
    auto deadline = Clock::now() + goodbye_time;
    const auto latest =
        Clock::now() + (waits_for_links_ ? std::min<Clock::duration>(Silence::longest(times_), 30s)
                                         : Clock::duration(goodbye_time));
    send_pending_report();
    send_departures();
    tell_all(FrameType::goodbye, {});
    if (rank_ != 0) links_[0].stop_sending();
    std::vector<bool> silent(links_.size());
    for (;;) {
        std::vector<pollfd> set;
        for (std::size_t i = 0; i < links_.size(); ++i) {
            const int events = (silent[i] ? 0 : POLLIN) | (links_[i].has_output() ? POLLOUT : 0);
            set.push_back({events ? links_[i].fd() : -1, static_cast<short>(events), 0});
        }
        const bool all_silent = std::all_of(set.begin(), set.end(), [](const pollfd& p) { return p.fd < 0; });
        if (all_silent) break;
        if (const auto now = Clock::now(); now >= deadline) {
            if (now >= latest || !is_cut_off(silent, now)) break;
            deadline = now + goodbye_look;
        }
        poll_until(set, departures_.empty() ? deadline : std::min(deadline, departures_due_));
        for (std::size_t i = 0; i < links_.size(); ++i) {
            if (!set[i].revents) continue;
            links_[i].flush();
            if (silent[i]) continue;
            const Link::State state = rank_ == 0 ? take_from(i) : links_[i].receive();
            silent[i] = state != Link::State::open;
            if (silent[i] && has_left(rank_of(i))) links_[i].close();  // it waits for nothing else from us
        }
        if (Clock::now() >= departures_due_) send_departures();
    }
    send_departures();
}

// Returns true if the host of a peer that has not ended has not acknowledged all that was sent, and is not
// yet lost for that: the kernel repeats the goodbye, and what was sent before it, once the link is up again.
// The connection must be open until then. Also the end of a container would drop what its kernel still has to
// send.
bool Member::is_cut_off(const std::vector<bool>& ended, Clock::time_point now) {
    if (loss()) return false;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        if (!links_[i].is_open() || ended[i]) continue;
        const Answers answers = links_[i].answers();
        if (answers.are_due && !links_[i].silence().verdict(now, answers, times_)) return true;
    }
    return false;
}

// Other ranks are not blamed for time in which this process could not receive.
void Member::note_absence(Clock::time_point now) {
    const auto absence = now - std::exchange(awake_, now) - times_.interval;  // less the longest sleep
    if (absence <= times_.interval) return;
    for (Link& link : links_) link.silence().excuse(absence, now);
    if (absence < times_.timeout / 2) return;
    absence_ = absence;
    back_since_ = now;
}

// Everything that had arrived by `now` has been read. A rank that is given up is told so, if it can still
// receive: its process may have been stopped, or its link may have been down.
void Member::judge_silence(Clock::time_point now) {
    for (std::size_t i = 0; i < links_.size(); ++i) {
        Link& link = links_[i];
        if (!link.is_open()) continue;
        const auto verdict = link.silence().verdict(now, link.answers(), times_);
        if (!verdict) continue;
        const std::string reason = *verdict + others_silent_with(i, now);
        note_lost(rank_of(i), reason);
        if (rank_ != 0) {
            link.queue(FrameType::lost, PayloadWriter().u32(0).bytes(reason).text());
            link.flush();
        }
        link.close();
    }
}

// Returns the names of the other silent ranks, too: a host often has several ranks.
std::string Member::others_silent_with(std::size_t index, Clock::time_point now) {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < links_.size(); ++i)
        if (i != index && links_[i].is_open() && links_[i].silence().length(now) > times_.timeout / 2)
            ranks.push_back(rank_of(i));
    return ranks.empty() ? "" : fmt::format("; nothing is heard of {} either", ranks_text(ranks));
}

// Returns why others have given this rank up, if the reason is that its process did not run.
std::optional<std::string> Member::own_absence() {
    note_absence(Clock::now());
    if (absence_ == absence_.zero() || Clock::now() - back_since_ > times_.timeout) return std::nullopt;
    return fmt::format("it did not run for {:.1f} s (was it stopped?), and the others have given it up",
                       std::chrono::duration<double>(absence_).count());
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

void Member::send_pending_meeting() {
    bool comes, asks;
    std::uint32_t number;
    {
        const std::lock_guard lock(mutex_);
        comes = std::exchange(has_to_come_, false);
        asks = std::exchange(has_to_ask_, false);
        number = rendezvous_;
    }
    const std::string payload = PayloadWriter().u32(number).text();
    if (comes) rank_ == 0 ? note_come(0, number) : tell_all(FrameType::come, payload);
    if (asks) rank_ == 0 ? note_absent(number, absent_from(number)) : tell_all(FrameType::roll_call, payload);
}

// Called on rank 0. A rank comes to a rendezvous only after all have come to the previous one.
void Member::note_come(int rank, std::uint32_t number) {
    if (number != come_[rank] + 1 || number > met_ + 1)
        throw ProtocolError("it arrived at a rendezvous that has not begun");
    come_[rank] = number;
    if (!absent_from(number).empty()) return;
    tell_all(FrameType::met, PayloadWriter().u32(number).text());
    note_met(number);
}

void Member::send_pending_comparison() {
    std::optional<std::uint64_t> wait;
    std::vector<Account> accounts;
    {
        const std::lock_guard lock(mutex_);
        wait = std::exchange(pending_wait_, std::nullopt);
        accounts = std::exchange(pending_accounts_, {});
    }
    if (wait) rank_ == 0 ? note_wait(*wait) : tell_all(FrameType::waits, PayloadWriter().u64(*wait).text());
    for (Account& account : accounts)
        rank_ == 0 ? note_account(0, std::move(account)) : tell_all(FrameType::tells, encode(account));
}

// Called on rank 0, as are the next functions.
void Member::note_wait(std::uint64_t number) {
    if (!has_bad_news() && comparison_.note_wait(number, Clock::now())) ask_all(number);
}

void Member::ask_all(std::uint64_t number) {
    tell_all(FrameType::asks, PayloadWriter().u64(number).text());
    ask_here(number);
}

void Member::ask_here(std::uint64_t number) {
    const std::lock_guard lock(asked_mutex_);
    if (asked_) asked_(number);
}

void Member::note_account(int rank, Account account) {
    if (note_idle(rank, account.asked, account.idleness)) {
        PayloadWriter payload;
        payload.u32(static_cast<std::uint32_t>(rank)).u64(account.asked);
        write(payload, account.idleness);
        tell_all(FrameType::told, payload.text());
    }
    if (const auto earlier = comparison_.note(rank, std::move(account), Clock::now())) ask_all(*earlier);
}

// A failure that was told earlier takes precedence.
void Member::look_at_difference() {
    if (!comparison_.due() || Clock::now() < *comparison_.due()) return;
    auto difference = has_bad_news() ? std::nullopt : comparison_.difference();
    comparison_ = {};
    if (!difference) return;
    tell_all(FrameType::differ, encode(*difference));
    note_difference(std::move(*difference));
}

// Called on all ranks. Returns true if that is news: of a thousand idle ranks, each told to all, a million
// messages would result. For a rank that is already known to be idle, only another kind of idleness is news,
// or that it makes progress again.
bool Member::note_idle(int rank, std::uint64_t number, Idleness idleness) {
    const std::lock_guard lock(mutex_);
    std::map<int, Idleness>& ranks = idle_[number];
    const auto known = ranks.find(rank);
    const bool is_known = known != ranks.end(), is_idle = idleness.kind != Idleness::Kind::none;
    bool is_news = is_known;
    if (is_idle) is_news = is_known ? known->second.kind != idleness.kind : ranks.size() < most_idle;
    if (is_news && is_idle) ranks[rank] = std::move(idleness);
    if (is_news && !is_idle) ranks.erase(known);
    if (ranks.empty()) idle_.erase(number);
    if (idle_.size() > most_questions) idle_.erase(idle_.begin());
    return is_news;
}

void Member::note_difference(Difference difference) {
    {
        const std::lock_guard lock(mutex_);
        difference_ = std::move(difference);
        note_bad_news();
    }
    event_.raise();
}

void Member::note_met(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    met_ = number;
    changed_.notify_all();
}

void Member::note_absent(std::uint32_t number, std::vector<int> ranks) {
    const std::lock_guard lock(mutex_);
    if (number == rendezvous_) absent_ = std::move(ranks);
    changed_.notify_all();
}

std::vector<int> Member::absent_from(std::uint32_t number) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < world_size_; ++rank)
        if (come_[rank] < number) ranks.push_back(rank);
    return ranks;
}

void Member::listen_to(std::size_t index) {
    Link& link = links_[index];
    if (!link.is_open()) return;
    const int from = rank_of(index);
    const auto silence = link.silence().length(Clock::now());
    const Link::State state = take_from(index);
    if (state == Link::State::open) return;
    if (!has_left(from)) note_lost(from, reason_of_end(link, state, silence, times_.timeout));
    link.close();
}

// Receives and handles frames. A peer that breaks the protocol is lost, and its link counts as reset.
Link::State Member::take_from(std::size_t index) {
    Link& link = links_[index];
    const int from = rank_of(index);
    const Link::State state = link.receive();
    if (rank_ != 0) host_heard_ = link.silence().since();
    try {
        while (const auto frame = link.parser().next()) handle(from, *frame);
    } catch (const ProtocolError& error) {
        note_lost(from, error.what());
        link.close();
        return Link::State::reset;
    }
    return state;
}

void Member::handle(int from, const Frame& frame) {
    if (frame.type == FrameType::heartbeat) return;
    if (frame.type == FrameType::goodbye) return note_left(from);
    rank_ == 0 ? handle_at_host(from, frame) : handle_at_guest(frame);
}

void Member::handle_at_host(int from, const Frame& frame) {
    if (frame.type == FrameType::report) return note_report(from, frame.payload);
    if (frame.type == FrameType::tells) return note_account(from, decode_account(frame.payload));
    PayloadReader reader(frame.payload);
    if (frame.type == FrameType::waits) return note_wait(reader.u64());
    const bool is_of_a_guest = frame.type == FrameType::gather || frame.type == FrameType::lost ||
                               frame.type == FrameType::come || frame.type == FrameType::roll_call;
    if (!is_of_a_guest) throw ProtocolError("it sent a message that only rank 0 may send");
    const std::uint32_t number = reader.u32();
    if (frame.type == FrameType::come) return note_come(from, number);
    if (frame.type == FrameType::roll_call) {
        PayloadWriter answer;
        answer.u32(number);
        for (const int rank : absent_from(number)) answer.u32(static_cast<std::uint32_t>(rank));
        Link& link = links_[static_cast<std::size_t>(from)];
        link.queue(FrameType::absent, answer.text());
        link.flush();
        return;
    }
    if (frame.type == FrameType::lost) return note_given_up(from, std::string(reader.rest()));
    take_part(from, number, reader.rest());
}

void Member::handle_at_guest(const Frame& frame) {
    PayloadReader reader(frame.payload);
    if (frame.type == FrameType::waiting) return;  // sent just before the start
    if (frame.type == FrameType::asks) return ask_here(reader.u64());
    if (frame.type == FrameType::differ)
        return note_difference(decode_difference(frame.payload, world_size_));
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
        case FrameType::lost: {
            const int rank = named_rank(first);
            const std::string reason(reader.rest());
            if (rank != rank_) return note_lost(rank, reason);
            return note_lost(rank, own_absence().value_or("rank 0 has given it up: " + reason));
        }
        case FrameType::left:
            note_left(named_rank(first));
            while (!reader.is_empty()) note_left(named_rank(reader.u32()));
            return;
        case FrameType::reported:
            return note_report(named_rank(first), reader.rest());
        case FrameType::told: {
            const std::uint64_t number = reader.u64();
            note_idle(named_rank(first), number, read_idleness(reader));
            return;
        }
        case FrameType::met:
            return note_met(first);
        case FrameType::absent: {
            std::vector<int> ranks;
            while (!reader.is_empty()) ranks.push_back(named_rank(reader.u32()));
            return note_absent(first, std::move(ranks));
        }
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
        if (--missing_parts_ > 0) return;
        for (auto& part : parts_) whole.push_back(*std::exchange(part, std::nullopt));
        missing_parts_ = parts_.size();
        ++gather_number_;
    }
    // Rank 0 sends to the others before it acts itself, because its process may end as soon as its caller is
    // told. It sends one piece with all n blobs: n pieces to each of n ranks would wake them n times.
    if (rank_ == 0) {
        std::string frames;
        for (std::uint32_t rank = 0; rank < whole.size(); ++rank)
            frames += encode_frame(FrameType::gathered,
                                   PayloadWriter().u32(number).u32(rank).bytes(whole[rank]).text());
        send_all(std::move(frames));
    }
    const std::lock_guard lock(mutex_);
    result_ = std::move(whole);
    changed_.notify_all();
}

// Notes on rank 0 that a guest has heard nothing from it for too long. The guest closes the connection.
void Member::note_given_up(int by, const std::string& reason) {
    if (const auto absence = own_absence()) return note_lost(0, *absence);
    note_lost(by, "it has given up rank 0: " + reason);
}

void Member::note_lost(int rank, const std::string& reason) {
    if (loss()) return;
    if (rank_ == 0)
        tell_all(FrameType::lost, PayloadWriter().u32(static_cast<std::uint32_t>(rank)).bytes(reason).text());
    {
        const std::lock_guard lock(mutex_);
        loss_ = Loss{rank, reason};
        note_bad_news();
    }
    event_.raise();
}

void Member::note_bad_news() {
    if (!bad_news_since_) bad_news_since_ = Clock::now();
    has_bad_news_ = true;
    changed_.notify_all();
}

void Member::note_left(int rank) {
    {
        const std::lock_guard lock(mutex_);
        left_[rank] = true;
        changed_.notify_all();
    }
    event_.raise();
    if (rank_ == 0) {
        if (departures_.empty()) departures_due_ = Clock::now() + departure_delay;
        departures_.push_back(rank);
    } else if (rank == 0) {
        send_pending_report();  // given before any rank could know that rank 0 leaves
        links_[0].stop_sending();
    }
}

void Member::send_departures() {
    if (departures_.empty()) return;
    PayloadWriter ranks;
    for (const int rank : std::exchange(departures_, {})) ranks.u32(static_cast<std::uint32_t>(rank));
    tell_all(FrameType::left, ranks.text());
}

// Rank 0 decides which report is the first. It passes later ones to the author of the first, to show how the
// other ranks saw the failure.
void Member::note_report(int rank, std::string_view text) {
    if (text.size() > max_report_size) throw ProtocolError("its report is longer than reports may be");
    if (loss() || difference() || reported_by(rank)) return;
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
        note_bad_news();
    }
    event_.raise();
}

void Member::tell_all(FrameType type, std::string_view payload) {
    send_all(encode_frame(type, payload));
}

void Member::send_all(std::string frames) {
    const auto shared = std::make_shared<const std::string>(std::move(frames));
    for (Link& link : links_) {
        link.queue(shared);
        link.flush();
    }
}

}  // namespace hocket::transport
