#include "runtime/transport/bootstrap/regroup.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/join.hpp"
#include "runtime/transport/bootstrap/link.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_listen = 5s;
constexpr Clock::duration probe_interval = 20ms, longest_probe = 200ms, longest_pause = 1s;  // of probes
constexpr auto pause_between_attempts = 10ms;
constexpr auto leaders_last_word = 500ms;  // a leader whose time is over still says so
constexpr std::size_t most_said = 1 << 20;

// The identity of a guest that means this rank: all ranks that may lead know the secret.
std::string leader_text(int leader) {
    return fmt::format("to rank {}", leader);
}

std::string encode(const std::set<int>& ranks) {
    PayloadWriter writer;
    for (const int rank : ranks) writer.u32(static_cast<std::uint32_t>(rank));
    return writer.text();
}

std::set<int> decode_ranks(PayloadReader& reader, std::size_t ranks) {
    std::set<int> result;
    while (!reader.is_empty()) {
        const std::uint32_t rank = reader.u32();
        if (rank >= ranks) throw ProtocolError("it named a rank that does not exist");
        result.insert(static_cast<int>(rank));
    }
    return result;
}

// Encodes the leader's message to its members.
std::string encode(const std::vector<int>& survivors, const Invitation& rendezvous) {
    const std::string text = rendezvous.text();
    return PayloadWriter()
        .u32(static_cast<std::uint32_t>(text.size()))
        .bytes(text)
        .bytes(encode(std::set<int>(survivors.begin(), survivors.end())))
        .text();
}

Error not_come(const std::vector<int>& ranks) {
    return {Status::timeout,
            fmt::format(
                "{} did not come to be counted in time, and {} not ended: do all ranks that are left call "
                "hkt_comm_shrink? Another call goes on without {}",
                ranks_text(ranks), ranks.size() == 1 ? "has" : "have", ranks.size() == 1 ? "it" : "them")};
}

Recovery::Regrouped decode(std::string_view payload, std::size_t ranks) {
    PayloadReader reader(payload);
    const std::uint32_t size = reader.u32();
    const std::string text(reader.bytes(size));
    const std::set<int> survivors = decode_ranks(reader, ranks);
    return {{survivors.begin(), survivors.end()}, Invitation::parse(text)};
}

}  // namespace

std::optional<std::string> Company::loss() const {
    for (const auto& [rank, link] : links_) {
        pollfd entry{link.fd(), POLLRDHUP, 0};
        if (poll_until({&entry, 1}, Clock::now()) > 0)
            return fmt::format(
                "rank {} was counted among those that are left, and has gone before all had met", rank);
    }
    return std::nullopt;
}

Recovery::Recovery(const std::string& address)
    : listener_(listen_on({address, 0}, Clock::now() + time_to_listen,
                          "it must be an address of this host; HOCKET_FABRIC_ADDR chooses another one")) {
    own_ = {address, bound_to(listener_).value_or(Endpoint{address, 0}).port};
}

void Recovery::settle(std::vector<Endpoint> all, int self, std::string secret) {
    all_ = std::move(all);
    self_ = self;
    secret_ = std::move(secret);
}

void Recovery::note_lost(int rank) {
    const std::lock_guard lock(mutex_);
    lost_.insert(rank);
}

std::set<int> Recovery::lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
}

// ---- The leader ----------------------------------------------------------------------------------

class Recovery::Leader {
  public:
    Leader(Recovery& recovery, Clock::time_point deadline)
        : recovery_(recovery), deadline_(deadline), admission_(loop_, recovery.listener_.fd(), terms()) {}

    Regrouped run() {
        for (;;) {
            const std::vector<int> expected = missing();
            const bool is_late = Clock::now() >= deadline_;
            if (!expected.empty()) {
                if (is_late) give_up(expected);
            } else {
                // The others cannot be more. Probes of many that do not answer would outlast any handshake.
                if (2 * survivors().size() > recovery_.all_.size()) break;
                const std::vector<int> others = unknown();
                if (may_go_on_without(others)) break;
                if (is_late || recovery_.doubt_.was_given_up || have_all_ended(others)) stay_behind(others);
            }
            loop_.turn(std::min(deadline_, Clock::now() + probe_interval));
            probe(expected);
        }
        Regrouped result{survivors(), {}};
        if (result.survivors.size() == 1) return result;
        result.rendezvous = invite(recovery_.own_.host);
        tell_all(FrameType::start, encode(result.survivors, result.rendezvous));
        for (const auto& [rank, member] : members_) {
            loop_.forget(member->link.fd());
            result.company.add(rank, std::move(member->link));
        }
        members_.clear();
        return result;
    }

  private:
    struct Member final : SocketLoop::Watcher {
        explicit Member(Leader& leader, int rank, Socket socket)
            : leader(leader), rank(rank), link(std::move(socket), most_said) {}
        void ready(std::uint32_t) override { leader.listen_to(rank); }
        Leader& leader;
        const int rank;
        Link link;
        bool has_spoken = false;
    };

    AdmissionTerms terms() {
        return {.host = fmt::format("rank {}, which gathers the ranks that are left,", recovery_.self_),
                .secret = recovery_.secret_,
                .wrong_secret = "wrong secret",
                .admit = [this](Admitted guest) { admit(std::move(guest)); },
                .refuse = [this](const Hello& hello) { return objection_to(hello); },
                .is_quiet = true};
    }

    // Looks which ranks have ended. A probe takes longest_probe if the host does not answer, so few are made
    // between two turns of the loop, which admits live ranks. And each probe of a rank that comes late takes
    // a place in the queue of its socket, so they become rarer.
    void probe(const std::vector<int>& ranks) {
        const Clock::time_point end = Clock::now() + probe_interval;
        for (std::size_t i = 0; i < ranks.size() && (i == 0 || Clock::now() < end); ++i) {
            const int rank = ranks[next_probed_++ % ranks.size()];
            Probe& probe = probes_[rank];
            if (Clock::now() < probe.next) continue;
            if (recovery_.is_gone(rank)) recovery_.note_lost(rank);
            probe.next = Clock::now() + probe.pause;
            probe.pause = std::min(2 * probe.pause, longest_pause);
        }
    }

    std::string objection_to(const Hello& hello) const {
        if (hello.world_size != recovery_.all_.size() || hello.rank >= recovery_.all_.size())
            return "it is of another job";
        if (hello.identity != leader_text(recovery_.self_)) return "it means another rank";
        return "";
    }

    // A rank that connects again has lost its connection.
    void admit(Admitted guest) {
        const int rank = static_cast<int>(guest.hello.rank);
        forget(rank);
        auto member = std::make_unique<Member>(*this, rank, std::move(guest.socket));
        loop_.watch(member->link.fd(), EPOLLIN, *member);
        members_.emplace(rank, std::move(member));
    }

    void listen_to(int rank) {
        Member& member = *members_.at(rank);
        const Link::State state = member.link.receive();
        try {
            while (const auto frame = member.link.parser().next()) {
                PayloadReader reader(frame->payload);
                for (const int lost : decode_ranks(reader, recovery_.all_.size()))
                    if (!members_.contains(lost) && lost != recovery_.self_) recovery_.note_lost(lost);
                member.has_spoken = true;
            }
        } catch (const ProtocolError&) {
            return forget(rank);
        }
        if (state != Link::State::open) forget(rank);
    }

    void forget(int rank) {
        const auto member = members_.find(rank);
        if (member == members_.end()) return;
        loop_.forget(member->second->link.fd());
        members_.erase(member);
    }

    // Returns the ranks that may still come. One that has come counts as here, even if others consider it
    // lost.
    std::vector<int> missing() const {
        const std::set<int> lost = recovery_.lost();
        std::vector<int> ranks;
        for (int rank = 0; rank < static_cast<int>(recovery_.all_.size()); ++rank) {
            const auto member = members_.find(rank);
            const bool is_here = member != members_.end() && member->second->has_spoken;
            const bool may_come = rank > recovery_.self_ && !lost.contains(rank);
            if (!is_here && (may_come || member != members_.end())) ranks.push_back(rank);
        }
        return ranks;
    }

    std::vector<int> survivors() const {
        std::vector<int> ranks{recovery_.self_};
        for (const auto& [rank, member] : members_) ranks.push_back(rank);
        return ranks;
    }

    // Returns the ranks that are not here and have not ended. They may be stopped, or behind a broken link,
    // together with others that assume the same of the ranks that are here.
    std::vector<int> unknown() const {
        std::vector<int> ranks;
        for (int rank = 0; rank < static_cast<int>(recovery_.all_.size()); ++rank)
            if (rank != recovery_.self_ && !members_.contains(rank) &&
                (recovery_.doubt_.was_given_up || recovery_.doubt_.of_ranks.contains(rank) ||
                 !recovery_.is_gone(rank)))
                ranks.push_back(rank);
        return ranks;
    }

    // Returns true if all the ranks have ended, so that waiting for them is useless.
    bool have_all_ended(const std::vector<int>& ranks) const {
        return std::all_of(ranks.begin(), ranks.end(), [this](int rank) {
            return recovery_.doubt_.of_ranks.contains(rank) && recovery_.is_gone(rank);
        });
    }

    // Returns true if this part may go on. Only one part may: the one with more ranks, or the one with the
    // first rank if both have as many.
    bool may_go_on_without(const std::vector<int>& unknown) const {
        const std::vector<int> here = survivors();
        const bool has_first =
            unknown.empty() || *std::min_element(here.begin(), here.end()) < unknown.front();
        return here.size() > unknown.size() || (here.size() == unknown.size() && has_first);
    }

    [[noreturn]] void give_up(const std::vector<int>& ranks) {
        for (const int rank : ranks) recovery_.note_lost(rank);
        tell_all(FrameType::lost, encode(std::set<int>(ranks.begin(), ranks.end())));
        throw not_come(ranks);
    }

    // Called only at the deadline, because a killed process can be known as dead before the kernel closes its
    // socket.
    [[noreturn]] void stay_behind(const std::vector<int>& unknown) {
        const std::vector<int> here = survivors();
        const Error error(
            Status::bootstrap,
            fmt::format(
                "{} cannot go on without {}, who {}: perhaps they have gone on without {}. Of two such parts "
                "the larger one goes on; of two that are equal, the one with the first rank",
                ranks_text(here), ranks_text(unknown),
                recovery_.doubt_.was_given_up ? "have given it up"
                : recovery_.doubt_.of_ranks.empty()
                    ? "have not ended"
                    : "have not ended, or ended too late to be taken for dead",
                here.size() == 1 ? "it" : "them"));
        tell_all(FrameType::abort, encode_abort(error));
        throw error;
    }

    void tell_all(FrameType type, const std::string& payload) {
        for (const auto& [rank, member] : members_) {
            member->link.queue(type, payload);
            member->link.flush();
        }
    }

    Recovery& recovery_;
    const Clock::time_point deadline_;
    SocketLoop loop_{SocketLoop::Way::poll};
    std::map<int, std::unique_ptr<Member>> members_;
    Admission admission_;
    struct Probe {
        Clock::time_point next{};
        Clock::duration pause = probe_interval;  // after the next one
    };
    std::map<int, Probe> probes_;  // by rank
    std::size_t next_probed_ = 0;
};

// ---- All -----------------------------------------------------------------------------------------

Recovery::Regrouped Recovery::regroup(Clock::time_point deadline, Doubt doubt) {
    const std::lock_guard one_at_a_time(regrouping_);
    doubt_ = std::move(doubt);
    answered_.clear();
    Regrouped result = lead_or_follow(deadline);
    for (int rank = 0; rank < static_cast<int>(all_.size()); ++rank)
        if (!std::binary_search(result.survivors.begin(), result.survivors.end(), rank)) note_lost(rank);
    return result;
}

Recovery::Regrouped Recovery::lead_or_follow(Clock::time_point deadline) {
    for (int rank = 0; rank < self_;) {
        if (lost().contains(rank)) {
            ++rank;
            continue;
        }
        auto result = follow(rank, deadline);
        if (result) return std::move(*result);
        if (is_gone(rank))
            note_lost(rank);
        else  // the rank begins again
            std::this_thread::sleep_for(pause_between_attempts);
    }
    return Leader(*this, deadline).run();
}

// Follows the leader. Returns nullopt if the rank has ended, or has closed the connection.
std::optional<Recovery::Regrouped> Recovery::follow(int leader, Clock::time_point deadline) {
    const auto host = fmt::format("rank {} at {}", leader, all_[static_cast<std::size_t>(leader)].text());
    Link link;
    try {
        link = Link(dial({.to = all_[static_cast<std::size_t>(leader)],
                          .secret = secret_,
                          .rank = static_cast<std::uint32_t>(self_),
                          .world_size = static_cast<std::uint32_t>(all_.size()),
                          .identity = leader_text(leader)},
                         {deadline}),
                    most_said);
    } catch (const DialError& error) {
        if (error.kind == DialError::Kind::unreachable && Clock::now() < deadline) return std::nullopt;
        if (error.kind == DialError::Kind::impostor) {  // another program has the port by now
            note_lost(leader);
            return std::nullopt;
        }
        if (error.kind == DialError::Kind::refused)
            throw Error(Status::bootstrap,
                        fmt::format("{} does not take rank {} in: {}", host, self_, error.what()));
        if (!answered_.contains(leader)) note_lost(leader);
        throw not_come({leader});
    }
    answered_.insert(leader);
    link.queue(FrameType::ready, encode(lost()));
    link.flush();
    for (;;) {
        pollfd entry{link.fd(), POLLIN, 0};
        if (poll_until({&entry, 1}, deadline + leaders_last_word) == 0)
            throw Error(
                Status::timeout,
                fmt::format("{} still waits for other ranks: do all that are left call hkt_comm_shrink?",
                            host));
        const Link::State state = link.receive();
        try {
            while (const auto frame = link.parser().next()) {
                if (frame->type == FrameType::start) {
                    Regrouped result = decode(frame->payload, all_.size());
                    result.company.add(leader, std::move(link));
                    return result;
                }
                if (frame->type == FrameType::lost) throw_given_up(frame->payload);
                if (frame->type == FrameType::abort) throw decode_abort(frame->payload);
            }
        } catch (const ProtocolError& error) {
            throw Error(Status::bootstrap, fmt::format("{}: {}", host, error.what()));
        }
        if (state != Link::State::open) return std::nullopt;
    }
}

// The leader has waited long enough for some ranks, and all ranks give them up.
void Recovery::throw_given_up(std::string_view payload) {
    PayloadReader reader(payload);
    const std::set<int> ranks = decode_ranks(reader, all_.size());
    for (const int rank : ranks) note_lost(rank);
    throw not_come({ranks.begin(), ranks.end()});
}

// Returns true if the rank's host no longer has its recovery socket.
bool Recovery::is_gone(int rank) const {
    std::string why;
    const Socket socket =
        connect_to(all_[static_cast<std::size_t>(rank)], {Clock::now() + longest_probe}, why);
    // Between hosts the reason goes on: it says from which address.
    return !socket.is_open() && why.starts_with(error_text(ECONNREFUSED));
}

}  // namespace hocket::transport
