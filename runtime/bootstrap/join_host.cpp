// Rank 0's side of joining. All guests and strangers are served at once from one poll(2) loop, each with its
// own deadline, so that none can keep the others waiting.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>

#include "runtime/bootstrap/join.hpp"
#include "runtime/caught.hpp"
#include "runtime/log.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto handshake_time = 2s;
constexpr auto waiting_interval = 500ms;
constexpr auto farewell_time = 200ms;
constexpr auto late_guests_time = 500ms;  // more than a guest's pause between two attempts
constexpr auto breathing_time = 100ms, look_up_time = 100ms;
constexpr int max_lines = 16;  // of a log that strangers can write

struct Stranger {
    Link link;
    std::string from;
    Clock::time_point deadline{};
    Hello hello{};
    std::string nonce;  // ours; empty until the challenge is sent
    bool done = false;
};

class Admission {
  public:
    Admission(const BootstrapOptions& options, int listener)
        : options_(options), listener_(listener), members_(options.world_size), ready_(options.world_size) {}

    std::vector<Link> run(Clock::time_point deadline, const std::function<void()>& prepare) {
        next_waiting_ = Clock::now() + waiting_interval;
        try {
            while (!missing().empty()) {
                if (Clock::now() >= deadline) throw Error(Status::timeout, missing_at_deadline());
                step(std::min(deadline, Clock::now() + look_up_time));
            }
            prepare();
        } catch (const std::exception& error) {
            tell_all(error_of(error));
            throw;
        }
        tell_members(FrameType::start, {});
        for (Stranger& stranger : strangers_) refuse(stranger, "all ranks have joined already");
        log_the_rest();
        return std::move(members_);
    }

  private:
    void step(Clock::time_point until) {
        std::vector<pollfd> set{{Clock::now() >= next_accept_ ? listener_ : -1, POLLIN, 0}};
        for (const Stranger& stranger : strangers_) set.push_back({stranger.link.fd(), POLLIN, 0});
        for (const Link& member : members_) set.push_back({member.fd(), POLLIN, 0});
        poll_until(set, until);

        std::size_t i = 1;
        for (Stranger& stranger : strangers_)
            if (set[i++].revents) listen_to(stranger);
        for (std::size_t rank = 0; rank < members_.size(); ++rank)
            if (set[i + rank].revents) listen_to_member(static_cast<int>(rank));
        turn_away_the_silent();
        strangers_.remove_if([](const Stranger& stranger) { return stranger.done; });
        if (set[0].revents) accept_some();
        if (Clock::now() >= next_waiting_) {
            next_waiting_ = Clock::now() + waiting_interval;
            tell_members(FrameType::waiting, ranks_text(missing()));
        }
    }

    // No more at a time than leave those before them the time to speak. The oldest makes room: a guest that
    // is dropped with the strangers tries again.
    void accept_some() {
        for (std::size_t i = 0; i < std::max<std::size_t>(max_strangers_ / 4, 1); ++i) {
            std::string from;
            Socket socket = accept_from(listener_, from);
            if (!socket.is_open()) {
                if (is_shortage(errno)) make_do_without(errno);
                return;
            }
            if (strangers_.size() >= max_strangers_)
                drop_oldest(fmt::format("{} others came before it had proved that it knows the secret",
                                        max_strangers_));
            Stranger& stranger = strangers_.emplace_back();
            stranger.link = Link(std::move(socket), max_stranger_payload);
            stranger.from = from;
            stranger.deadline = Clock::now() + handshake_time;
        }
    }

    // The listener stays readable: without a pause the loop would spin.
    void make_do_without(int error) {
        shortage_ = error_text(error);
        next_accept_ = Clock::now() + breathing_time;
        drop_oldest(fmt::format("rank 0 cannot open more connections: {}", shortage_));
    }

    void drop_oldest(const std::string& why) {
        if (strangers_.empty()) return;
        drop(strangers_.front(), why);
        strangers_.pop_front();
    }

    void listen_to(Stranger& stranger) {
        const Link::State state = stranger.link.receive();
        try {
            while (!stranger.done) {
                const auto frame = stranger.link.parser().next();
                if (!frame) break;
                stranger.nonce.empty() ? challenge(stranger, *frame) : judge(stranger, *frame);
            }
        } catch (const ProtocolError& error) {
            turn_away(stranger, error.what());
        }
        if (!stranger.done && state != Link::State::open)
            turn_away(stranger, "it closed the connection before it had proved that it knows the secret");
    }

    void challenge(Stranger& stranger, const Frame& frame) {
        if (frame.type != FrameType::hello) throw ProtocolError("it did not begin with a hello");
        stranger.hello = decode_hello(frame.payload);
        stranger.nonce = fresh_nonce();
        stranger.link.queue(FrameType::challenge, stranger.nonce);
        stranger.link.flush();
    }

    void judge(Stranger& stranger, const Frame& frame) {
        if (frame.type != FrameType::proof) throw ProtocolError("it did not answer the challenge");
        const Hello& hello = stranger.hello;
        if (!same_proof(frame.payload, make_proof(options_.secret, Side::guest, hello, stranger.nonce)))
            return turn_away(stranger, "wrong secret (HOCKET_SECRET must be the same on all ranks)");
        const auto world = static_cast<std::uint32_t>(options_.world_size);
        if (hello.world_size != world)
            return turn_away(stranger, fmt::format("rank {} was started with WORLD_SIZE {}, rank 0 with {}",
                                                   hello.rank, hello.world_size, world));
        if (hello.rank == 0 || hello.rank >= world)
            return turn_away(stranger, fmt::format("rank {} is not one of 1 to {}", hello.rank, world - 1));
        if (members_[hello.rank].is_open())
            return turn_away(stranger,
                             fmt::format("another process has joined as rank {} already; every process "
                                         "needs a RANK of its own",
                                         hello.rank));
        stranger.link.queue(FrameType::welcome,
                            make_proof(options_.secret, Side::host, hello, stranger.nonce));
        stranger.link.flush();
        stranger.link.parser().set_limit(max_member_payload);
        members_[hello.rank] = std::move(stranger.link);
        stranger.done = true;
        if (!farewell_.empty()) take_leave(members_[hello.rank]);
    }

    void listen_to_member(int rank) {
        Link& member = members_[rank];
        const Link::State state = member.receive();
        if (!farewell_.empty()) {
            if (state != Link::State::open) member.close();
            return;
        }
        take_word(rank);
        if (state == Link::State::open) return;
        throw Error(Status::bootstrap,
                    fmt::format("rank {} joined, but its process ended before all others had joined; "
                                "look at the output of rank {} first",
                                rank, rank));
    }

    // All that a member may say before the job starts: that it is ready, or why it never will be.
    void take_word(int rank) {
        try {
            while (const auto frame = members_[rank].parser().next()) {
                if (frame->type == FrameType::abort) {
                    const Error error = decode_abort(frame->payload);
                    throw Error(error.status(), fmt::format("rank {} reported: {}", rank, error.what()));
                }
                if (frame->type != FrameType::ready)
                    throw ProtocolError("it spoke before the job had started");
                ready_[rank] = true;
            }
        } catch (const ProtocolError& error) {
            throw Error(Status::bootstrap,
                        fmt::format("rank {} does not keep to the protocol: {}", rank, error.what()));
        }
    }

    void turn_away_the_silent() {
        for (Stranger& stranger : strangers_)
            if (!stranger.done && Clock::now() >= stranger.deadline)
                drop(stranger, fmt::format("it did not prove within {} that it knows the secret",
                                           seconds_text(handshake_time)));
    }

    void turn_away(Stranger& stranger, const std::string& why) {
        log(stranger, why);
        refuse(stranger, why);
    }

    // Without a refusal: if it is a slow guest, it is to try again.
    void drop(Stranger& stranger, const std::string& why) {
        log(stranger, why);
        stranger.link.close();
        stranger.done = true;
    }

    void log(const Stranger& stranger, const std::string& why) {
        const std::string text = fmt::format("{}: {}", stranger.from, printable(why));
        if (++turned_away_ <= max_lines) log_line("hocket: rank 0 turned away a connection from {}", text);
        if (examples_.size() < 8) examples_.push_back(text);
    }

    void log_the_rest() const {
        if (turned_away_ > max_lines)
            log_line("hocket: rank 0 turned away {} more connections while ranks joined",
                     turned_away_ - max_lines);
    }

    void refuse(Stranger& stranger, const std::string& why) {
        stranger.link.queue(FrameType::refused, why);
        stranger.link.flush();
        stranger.link.stop_sending();
        stranger.link.receive();  // closing with unread bytes would reset the connection and lose the refusal
        stranger.link.close();
        stranger.done = true;
    }

    void tell_members(FrameType type, std::string_view payload) {
        for (Link& member : members_) {
            if (type == FrameType::waiting && member.has_output()) continue;
            member.queue(type, payload);
            member.flush();
        }
    }

    // Also those who come only now: they may have been kept waiting for want of descriptors, which are free
    // again once members have gone.
    void tell_all(const Error& error) {
        try {
            farewell_ = encode_abort(error);
            const bool is_complete = missing().empty();
            const auto until = Clock::now() + (is_complete ? farewell_time : late_guests_time);
            for (Link& member : members_) take_leave(member);
            // Looks up often: what it did without for want of descriptors is taken up again as time passes.
            while (Clock::now() < until && (!is_complete || has_members()))
                step(std::min(until, Clock::now() + look_up_time));
            log_the_rest();
        } catch (const std::exception&) {  // what was said must do
        }
    }

    void take_leave(Link& member) {
        member.queue(FrameType::abort, farewell_);
        member.flush();
        member.stop_sending();
    }

    bool has_members() const {
        return std::any_of(members_.begin(), members_.end(), [](const Link& link) { return link.is_open(); });
    }

    std::vector<int> missing() const {
        std::vector<int> ranks;
        for (int rank = 1; rank < options_.world_size; ++rank)
            if (!ready_[rank]) ranks.push_back(rank);
        return ranks;
    }

    std::string missing_at_deadline() const {
        std::string text = fmt::format(
            "{} did not join rank 0 at {}:{} within {}; are all {} processes running, with the same "
            "MASTER_ADDR, MASTER_PORT and WORLD_SIZE?",
            ranks_text(missing()), options_.master_addr, options_.master_port,
            seconds_text(options_.join_timeout), options_.world_size);
        if (!shortage_.empty())
            text += fmt::format("\n  rank 0 could not take all connections: {}; raise its limit (ulimit -n)",
                                shortage_);
        for (const std::string& line : examples_) text += "\n  turned away meanwhile: " + line;
        if (const auto more = turned_away_ - static_cast<int>(examples_.size()); more > 0)
            text += fmt::format("\n  and {} more", more);
        return text;
    }

    const BootstrapOptions& options_;
    const int listener_;
    std::vector<Link> members_;
    std::vector<bool> ready_;  // by rank
    std::list<Stranger> strangers_;
    const std::size_t max_strangers_ = most_strangers();
    int turned_away_ = 0;
    std::vector<std::string> examples_;  // of those turned away
    std::string farewell_;               // what all are told when it is over; empty: it goes on
    std::string shortage_;               // why connections could not be taken; empty: all were
    Clock::time_point next_waiting_{}, next_accept_{};
};

}  // namespace

std::vector<Link> admit_guests(const BootstrapOptions& options, const std::function<void()>& prepare) {
    const auto deadline = Clock::now() + options.join_timeout;
    if (options.listen_fd < 0) {
        const Socket listener = listen_on({options.master_addr, options.master_port}, deadline,
                                          "MASTER_ADDR must be an address of rank 0's host and MASTER_PORT a "
                                          "port that nobody else uses there");
        return Admission(options, listener.fd()).run(deadline, prepare);
    }
    const int flags = fcntl(options.listen_fd, F_GETFL);
    if (flags < 0 || fcntl(options.listen_fd, F_SETFL, flags | O_NONBLOCK) < 0)
        throw Error(Status::bootstrap,
                    fmt::format("file descriptor {}, on which rank 0 is to listen, is not open; "
                                "unset HOCKET_LISTEN_FD or hand the socket on",
                                options.listen_fd));
    return Admission(options, options.listen_fd).run(deadline, prepare);
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
    if (number < 1 || number > static_cast<std::uint32_t>(-static_cast<int>(Status::limit)))
        throw ProtocolError("it gave up for a reason that does not exist");
    return {static_cast<Status>(-static_cast<int>(number)), std::string(reader.rest())};
}

}  // namespace hocket::transport
