// The other ranks' side of joining.
#include <fmt/format.h>

#include "runtime/base/caught.hpp"
#include "runtime/transport/bootstrap/join.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// Rank 0 no longer answers.
struct Silent : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Rank 0 has said that joining is over.
struct Aborted : Error {
    using Error::Error;
};

constexpr auto farewell_time = 200ms;
// At the deadline rank 0 knows better what is wrong, so a guest that has reached rank 0 waits for its last
// message.
constexpr auto last_word = 1000ms;
constexpr auto late_to_listen = 1000ms;  // an inviter listens before others can know its address

class Guest {
  public:
    Guest(BootstrapOptions& options, const std::function<void()>& prepare)
        : options_(options),
          prepare_(prepare),
          host_{options.master_addr, options.master_port},
          deadline_(Clock::now() + options.join_timeout) {}

    Link run() {
        link_ = Link(reach(), max_refusal_payload);
        try {
            if (options_.is_newcomer) await_place();
            take_part();
        } catch (const ProtocolError& error) {
            throw Error(Status::bootstrap, not_rank_0(error.what()));
        }
        return std::move(link_);
    }

  private:
    Socket reach() const try {
        return dial(
            {.to = host_,
             .secret = options_.secret,
             .rank = options_.is_newcomer ? rank_of_newcomers : static_cast<std::uint32_t>(options_.rank),
             .world_size = static_cast<std::uint32_t>(options_.world_size),
             .gone_for = options_.host_listens  ? Clock::duration(0)
                         : options_.is_newcomer ? late_to_listen
                                                : Clock::duration(options_.join_timeout),
             .last_word = options_.is_newcomer ? Clock::duration(0) : last_word},
            {deadline_, options_.abandoned});
    } catch (const DialError& error) {
        using Kind = DialError::Kind;
        if (error.kind == Kind::impostor) throw Error(Status::bootstrap, not_rank_0(error.what()));
        if (options_.is_newcomer && error.kind == Kind::silent) throw not_taken_in();
        if (options_.is_newcomer && error.kind == Kind::unreachable)
            throw Error(Status::bootstrap,
                        fmt::format("no rank 0 takes new processes in at {}: {}; was its id used for "
                                    "others already, or has its process ended?",
                                    host_.text(), error.what()));
        if (error.kind == Kind::refused)
            throw Error(Status::bootstrap, fmt::format("rank 0 at {} turned {} away: {}", host_.text(),
                                                       own_name(), error.what()));
        throw Error(error.kind == Kind::silent ? Status::timeout : Status::bootstrap,
                    fmt::format("{} could not reach rank 0 at {} within {}: {}; is rank 0 running, and are "
                                "MASTER_ADDR and MASTER_PORT the same on all ranks?{}",
                                own_name(), host_.text(), seconds_text(options_.join_timeout), error.what(),
                                host_is_here()));
    }

    std::string host_is_here() const {
        if (!means_loopback(host_.host)) return "";
        return fmt::format(
            " {} is this host itself: if rank 0 is on another one, set MASTER_ADDR to that one's name or "
            "address",
            host_.host);
    }

    std::string own_name() const {
        return options_.is_newcomer ? "this new process" : fmt::format("rank {}", options_.rank);
    }

    std::string not_rank_0(std::string_view why) const {
        return fmt::format(
            "the process that answers at {} is not rank 0 of this job: {}; is MASTER_PORT another job's or "
            "program's, or does HOCKET_SECRET differ between ranks?",
            host_.text(), printable(why));
    }

    // The communicator may take this process in long after it came.
    void await_place() {
        try {
            // Rank 0 does not know how long this process waits, and sends nothing when that time is over.
            notice_hosts_end(link_.fd());
            const Frame frame = next_frame(deadline_);
            forget_hosts_end(link_.fd());
            if (frame.type == FrameType::abort) throw_refused(frame.payload);
            if (frame.type != FrameType::placed) throw ProtocolError("it did not say which rank is free");
            PayloadReader reader(frame.payload);
            const std::uint32_t rank = reader.u32(), world = reader.u32(), left_ms = reader.u32();
            reader.finish();
            if (rank == 0 || rank >= world || world > INT32_MAX)
                throw ProtocolError(fmt::format("it speaks of rank {} of {}", rank, world));
            options_.rank = static_cast<int>(rank);
            options_.world_size = static_cast<int>(world);
            options_.join_timeout = std::chrono::milliseconds(left_ms);
            deadline_ = Clock::now() + options_.join_timeout;
        } catch (const Silent& error) {
            if (Clock::now() < deadline_)
                throw Error(
                    Status::bootstrap,
                    fmt::format("rank 0 at {} closed its id, or is gone, before it had taken this new "
                                "process in ({}); look at the output of rank 0 first",
                                host_.text(), error.what()));
            throw not_taken_in();
        }
    }

    Error not_taken_in() const {
        return {Status::timeout,
                fmt::format("rank 0 at {} has not taken this new process in within {}; do the ranks "
                            "that are there call hkt_comm_grow, and is this still their id?",
                            host_.text(), seconds_text(options_.join_timeout))};
    }

    // From here on rank 0 counts this rank as a member: there is no second attempt, and failures here are
    // reported to rank 0.
    void take_part() {
        try {
            prepare_();
            say(FrameType::ready, {});
            await_start();
        } catch (const Aborted&) {
            throw;
        } catch (const ProtocolError&) {
            throw;
        } catch (const std::exception& error) {
            tell_host(error_of(error));
            throw;
        }
    }

    void tell_host(const Error& error) {
        if (!link_.is_open()) return;
        try {
            say(FrameType::abort, encode_abort(error));
            link_.stop_sending();
            pollfd entry{link_.fd(), POLLIN, 0};
            // Closing with unread bytes would reset the connection, and data already sent would be lost.
            const auto until = Clock::now() + farewell_time;
            while (poll_until({&entry, 1}, until) > 0 && link_.receive() == Link::State::open) continue;
        } catch (const std::exception&) {  // the error to be reported is thrown anyway
        }
    }

    void await_start() {
        std::string missing = "other ranks";
        try {
            for (;;) {
                const Frame frame = next_frame(deadline_ + last_word);
                if (frame.type == FrameType::start) break;
                if (frame.type == FrameType::abort) throw_aborted(frame.payload);
                if (frame.type != FrameType::waiting) throw ProtocolError("it sent an unexpected message");
                missing = printable(frame.payload);
                if (Clock::now() >= deadline_) throw_missing(missing);
            }
        } catch (const Silent& error) {
            if (Clock::now() >= deadline_) throw_missing(missing);
            throw Error(Status::bootstrap,
                        fmt::format("rank 0 at {} ended before all ranks had joined ({}); look at "
                                    "the output of rank 0 first",
                                    host_.text(), error.what()));
        }
        link_.parser().set_limit(max_member_payload);
    }

    [[noreturn]] static void throw_refused(std::string_view payload) {
        const Error error = decode_abort(payload);
        throw Aborted(error.status(),
                      fmt::format("rank 0 does not take this new process in: {}", error.what()));
    }

    [[noreturn]] static void throw_aborted(std::string_view payload) {
        const Error error = decode_abort(payload);
        throw Aborted(error.status(), fmt::format("the job did not start: {}", error.what()));
    }

    [[noreturn]] void throw_missing(const std::string& missing) {
        throw Error(
            Status::timeout,
            fmt::format("rank {} has joined, but {} did not within {}; are all {} processes "
                        "running?",
                        options_.rank, missing, seconds_text(options_.join_timeout), options_.world_size));
    }

    void say(FrameType type, std::string_view payload) {
        link_.queue(type, payload);
        link_.flush();
    }

    Frame next_frame(Clock::time_point until) {
        for (;;) {
            if (auto frame = link_.parser().next()) return std::move(*frame);
            pollfd entry{link_.fd(), POLLIN, 0};
            if (!Patience{until, options_.abandoned}.wait({&entry, 1}))
                throw Silent("it accepts connections but does not answer");
            const Link::State state = link_.receive();
            if (state == Link::State::open) continue;
            if (auto frame = link_.parser().next()) return std::move(*frame);
            throw Silent(state == Link::State::closed  ? "it closed the connection"
                         : state == Link::State::reset ? "it reset the connection"
                                                       : "the connection failed: " + link_.failure());
        }
    }

    BootstrapOptions& options_;
    const std::function<void()>& prepare_;
    const Endpoint host_;
    Clock::time_point deadline_;
    Link link_;
};

}  // namespace

Link join_host(BootstrapOptions& options, const std::function<void()>& prepare) {
    return Guest(options, prepare).run();
}

}  // namespace hocket::transport
