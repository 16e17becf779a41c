// Rank 0's side of joining. One loop serves all joining ranks, and all connections that have not proved
// themselves, so that none of them can delay the others.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "runtime/base/caught.hpp"
#include "runtime/transport/bootstrap/join.hpp"
#include "runtime/transport/bootstrap/lobby.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto waiting_interval = 500ms;
constexpr auto host_farewell_time = 200ms;
constexpr auto late_guests_time = 500ms;  // longer than a guest's pause between two attempts

class Host final : Lobby::Host {
  public:
    // listens: the address of a socket that this rank has opened itself.
    Host(const BootstrapOptions& options, Lobby& lobby, Clock::time_point deadline,
         std::optional<Endpoint> listens = std::nullopt)
        : options_(options), lobby_(lobby), deadline_(deadline), listens_(std::move(listens)) {
        for (int rank = 0; rank < options.world_size; ++rank) members_.emplace_back(*this, rank);
    }

    std::vector<Link> run(const std::function<void()>& prepare) {
        try {
            lobby_.open_to(*this);
            if (options_.newcomers_wait) require_newcomers();
            look_whether_abandoned();
            tell_who_is_missing();
            while (!missing().empty()) {
                if (Clock::now() >= deadline_) throw Error(Status::timeout, missing_at_deadline());
                lobby_.admission().require_descriptors();
                loop().turn(deadline_);
            }
            prepare();
        } catch (const std::exception& error) {
            tell_all(error_of(error));
            throw;
        }
        tell_members(FrameType::start, {});
        lobby_.admission().refuse_all("all ranks have joined already");
        std::vector<Link> links;
        for (Member& member : members_) links.push_back(std::move(member.link));
        return links;
    }

  private:
    // Another rank, or the place for a rank that has not joined yet.
    struct Member final : SocketLoop::Watcher {
        Member(Host& host, int rank) : host(host), rank(rank) {}
        void ready(std::uint32_t) override { host.listen_to(*this); }
        Host& host;
        const int rank;
        Link link{};
        bool is_ready = false;
    };

    SocketLoop& loop() { return lobby_.loop(); }

    std::string objection_to(const Hello& hello) const override {
        if (hello.rank == rank_of_newcomers) return objection_to_newcomer();
        const auto world = static_cast<std::uint32_t>(options_.world_size);
        if (hello.world_size != world)
            return fmt::format("rank {} was started with WORLD_SIZE {}, rank 0 with {}", hello.rank,
                               hello.world_size, world);
        if (hello.rank == 0 || hello.rank >= world)
            return fmt::format("rank {} is not one of 1 to {}", hello.rank, world - 1);
        if (is_for_newcomers(static_cast<int>(hello.rank)))
            return fmt::format("rank {} is for a process that says that it is new, not for one with a rank",
                               hello.rank);
        if (members_[hello.rank].link.is_open())
            return fmt::format(
                "another process has joined as rank {} already; every process needs a RANK of "
                "its own",
                hello.rank);
        return "";
    }

    std::string objection_to_newcomer() const {
        if (options_.newcomers == 0)
            return "this communicator takes no new processes: each of its ranks was to know its number";
        if (place_for_newcomer()) return "";
        return fmt::format("this communicator takes {} new process{}, and others came first",
                           options_.newcomers, options_.newcomers == 1 ? "" : "es");
    }

    bool is_for_newcomers(int rank) const { return rank >= options_.world_size - options_.newcomers; }

    std::optional<std::size_t> place_for_newcomer() const {
        for (const Member& member : members_)
            if (is_for_newcomers(member.rank) && !member.link.is_open())
                return static_cast<std::size_t>(member.rank);
        return std::nullopt;
    }

    void admit(Admitted guest) override {
        const bool is_newcomer = guest.hello.rank == rank_of_newcomers;
        Member& member = members_[is_newcomer ? place_for_newcomer().value() : guest.hello.rank];
        member.link = Link(std::move(guest.socket), max_member_payload);
        if (is_newcomer) {
            const auto left = std::max(deadline_ - Clock::now(), Clock::duration(0));
            const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
            member.link.queue(FrameType::placed, PayloadWriter()
                                                     .u32(static_cast<std::uint32_t>(member.rank))
                                                     .u32(static_cast<std::uint32_t>(options_.world_size))
                                                     .u32(static_cast<std::uint32_t>(ms))
                                                     .text());
            member.link.flush();
        }
        loop().watch(member.link.fd(), EPOLLIN, member);
        if (!farewell_.empty()) take_leave(member);
    }

    void listen_to(Member& member) {
        const Link::State state = member.link.receive();
        if (farewell_.empty()) take_word(member);
        if (state == Link::State::open) return;
        if (farewell_.empty())
            throw Error(Status::bootstrap,
                        fmt::format("rank {} joined, but its process ended before all others had joined; "
                                    "look at the output of rank {} first",
                                    member.rank, member.rank));
        loop().forget(member.link.fd());
        member.link.close();
    }

    // A member may send only two messages before the job starts: that it is ready, or why it never will be.
    void take_word(Member& member) {
        try {
            while (const auto frame = member.link.parser().next()) {
                if (frame->type == FrameType::abort) {
                    const Error error = decode_abort(frame->payload);
                    throw Error(error.status(),
                                fmt::format("rank {} reported: {}", member.rank, error.what()));
                }
                if (frame->type != FrameType::ready)
                    throw ProtocolError("it spoke before the job had started");
                member.is_ready = true;
            }
        } catch (const ProtocolError& error) {
            throw Error(Status::bootstrap,
                        fmt::format("rank {} does not keep to the protocol: {}", member.rank, error.what()));
        }
    }

    void require_newcomers() const {
        if (const auto place = place_for_newcomer())
            throw Error(Status::bootstrap,
                        fmt::format("a new process that waited has ended before it could become rank {}; the "
                                    "others that waited are to come to another id",
                                    *place));
    }

    void look_whether_abandoned() {
        if (!options_.abandoned || !farewell_.empty()) return;
        if (const auto why = options_.abandoned()) throw Error(Status::peer_lost, *why);
        loop().at(Clock::now() + Patience::look_again, [this] { look_whether_abandoned(); });
    }

    void tell_who_is_missing() {
        tell_members(FrameType::waiting, ranks_text(missing()));
        loop().at(Clock::now() + waiting_interval, [this] { tell_who_is_missing(); });
    }

    void tell_members(FrameType type, std::string_view payload) {
        for (Member& member : members_) {
            if (type == FrameType::waiting && member.link.has_output()) continue;
            member.link.queue(type, payload);
            member.link.flush();
        }
    }

    // Also tells ranks that connect only now: before, this process may have had no descriptor left for them.
    void tell_all(const Error& error) {
        try {
            farewell_ = encode_abort(error);
            // After a loss, late ranks that know that this one listened find that it no longer does, so they
            // need no farewell.
            const bool is_a_loss = error.status() == Status::peer_lost || error.status() == Status::bootstrap;
            const bool nobody_is_late = missing().empty() || (options_.host_listens && is_a_loss);
            const auto until = Clock::now() + (nobody_is_late ? host_farewell_time : late_guests_time);
            for (Member& member : members_) take_leave(member);
            while (Clock::now() < until && (!nobody_is_late || has_members())) loop().turn(until);
        } catch (const std::exception&) {  // no more can be sent
        }
    }

    void take_leave(Member& member) {
        member.link.queue(FrameType::abort, farewell_);
        member.link.flush();
        member.link.stop_sending();
    }

    bool has_members() const {
        return std::any_of(members_.begin(), members_.end(),
                           [](const Member& member) { return member.link.is_open(); });
    }

    std::vector<int> missing() const {
        std::vector<int> ranks;
        for (const Member& member : members_)
            if (member.rank > 0 && !member.is_ready) ranks.push_back(member.rank);
        return ranks;
    }

    // Returns those of the ranks that are new processes and have been given their place.
    std::vector<int> placed(std::vector<int> ranks) const {
        std::erase_if(ranks, [this](int rank) {
            return !is_for_newcomers(rank) || !members_[static_cast<std::size_t>(rank)].link.is_open();
        });
        return ranks;
    }

    std::string missing_at_deadline() const {
        if (const std::vector<int> silent = placed(missing()); !silent.empty())
            return fmt::format(
                "{} came as new process{}, and said no more within {}: {} stopped, or on a host that is gone",
                ranks_text(silent), silent.size() == 1 ? "" : "es", seconds_text(options_.join_timeout),
                silent.size() == 1 ? "it is" : "they are");
        if (options_.newcomers > 0)
            return fmt::format(
                "{} did not come to rank 0 at {}:{} within {}; new processes get the ranks from {} on: were "
                "{} started, and do all ranks that were there call hkt_comm_grow?{}",
                ranks_text(missing()), options_.master_addr, options_.master_port,
                seconds_text(options_.join_timeout), options_.world_size - options_.newcomers,
                options_.newcomers, lobby_.admission().troubles());
        return fmt::format(
            "{} did not join rank 0 at {}:{} within {}; are all {} processes running, with the same "
            "MASTER_ADDR, MASTER_PORT and WORLD_SIZE?{}{}",
            ranks_text(missing()), options_.master_addr, options_.master_port,
            seconds_text(options_.join_timeout), options_.world_size, lobby_.admission().troubles(),
            where_it_listens());
    }

    // Says where rank 0 listens if that is not MASTER_ADDR itself, or if other hosts cannot reach it; ""
    // otherwise.
    std::string where_it_listens() const {
        if (!listens_) return "";
        if (means_loopback(listens_->host))
            return fmt::format(
                "; rank 0 listens at {}, which no other host reaches: if there are ranks on other hosts, set "
                "MASTER_ADDR to the name or an address of rank 0's host",
                listens_->text());
        if (listens_->host == options_.master_addr) return "";
        if (listens_->is_any_address())
            return fmt::format(
                "; rank 0 listens at all addresses of its host, port {}: do the other hosts "
                "know {} by one of them?",
                listens_->port, options_.master_addr);
        return fmt::format("; {} is {} on rank 0's host", options_.master_addr, listens_->host);
    }

    const BootstrapOptions& options_;
    Lobby& lobby_;
    const Clock::time_point deadline_;
    const std::optional<Endpoint> listens_;
    std::deque<Member> members_;  // by rank
    std::string farewell_;        // sent to all when joining has failed; empty: it goes on
};

}  // namespace

std::vector<Link> admit_guests(const BootstrapOptions& options, const std::function<void()>& prepare) {
    const auto deadline = Clock::now() + options.join_timeout;
    if (options.lobby) return Host(options, *options.lobby, deadline).run(prepare);
    if (options.listen_fd < 0) {
        Socket listener =
            listen_for_others({options.master_addr, options.master_port}, deadline,
                              "MASTER_ADDR must be an address of rank 0's host and MASTER_PORT a "
                              "port that nobody else uses there");
        const std::optional<Endpoint> listens = bound_to(listener);
        Lobby lobby(std::move(listener), options.secret);
        return Host(options, lobby, deadline, listens).run(prepare);
    }
    const int flags = fcntl(options.listen_fd, F_GETFL);
    if (flags < 0 || fcntl(options.listen_fd, F_SETFL, flags | O_NONBLOCK) < 0)
        throw Error(Status::bootstrap,
                    fmt::format("file descriptor {}, on which rank 0 is to listen, is not open; "
                                "unset HOCKET_LISTEN_FD or hand the socket on",
                                options.listen_fd));
    Lobby lobby(options.listen_fd, options.secret);
    return Host(options, lobby, deadline).run(prepare);
}

std::string encode_abort(const Error& error) {
    return PayloadWriter()
        .u32(static_cast<std::uint32_t>(-static_cast<int>(error.status())))
        .bytes(std::string_view(error.what()).substr(0, max_refusal_payload - 4))
        .text();
}

Error decode_abort(std::string_view payload) {
    PayloadReader reader(payload);
    const std::uint32_t number = reader.u32();
    if (number < 1 || number > static_cast<std::uint32_t>(-lowest_status))
        throw ProtocolError("it gave up and sent an unknown reason");
    return {static_cast<Status>(-static_cast<int>(number)), std::string(reader.rest())};
}

}  // namespace hocket::transport
