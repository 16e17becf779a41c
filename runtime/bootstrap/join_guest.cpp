// The other ranks' side of joining.
#include <fmt/format.h>

#include <thread>

#include "runtime/bootstrap/join.hpp"
#include "runtime/caught.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// The connection is of no use, but another attempt may be.
struct TryAgain : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Rank 0's word that it is over.
struct Aborted : Error {
    using Error::Error;
};

constexpr auto farewell_time = 200ms;

class Guest {
  public:
    Guest(const BootstrapOptions& options, const std::function<void()>& prepare)
        : options_(options),
          prepare_(prepare),
          host_{options.master_addr, options.master_port},
          deadline_(Clock::now() + options.join_timeout) {}

    Link run() {
        auto pause = 10ms;
        std::string why = "no answer";
        do {
            try {
                Socket socket = connect_to(host_, {end()}, why);
                is_reached_ = socket.is_open();
                if (is_reached_) {
                    link_ = Link(std::move(socket), max_refusal_payload);
                    prove();
                    take_part();
                    return std::move(link_);
                }
            } catch (const TryAgain& error) {
                why = error.what();
            } catch (const ProtocolError& error) {
                throw Error(
                    Status::bootstrap,
                    fmt::format("what answers at {} is not rank 0 of this job: {}; is MASTER_PORT right?",
                                host_.text(), printable(error.what())));
            }
            std::this_thread::sleep_until(std::min(end(), Clock::now() + pause));
            pause = std::min(pause * 2, 200ms);
        } while (Clock::now() < end());
        throw Error(
            is_reached_ ? Status::timeout : Status::bootstrap,
            fmt::format("rank {} could not reach rank 0 at {} within {}: {}; is rank 0 running, and are "
                        "MASTER_ADDR and MASTER_PORT the same on all ranks?",
                        options_.rank, host_.text(), seconds_text(options_.join_timeout), why));
    }

  private:
    // Rank 0 knows better what is wrong at the deadline, so its word is awaited where it is there.
    Clock::time_point end() const { return deadline_ + (is_reached_ ? 1s : 0s); }

    void prove() {
        const Hello hello{static_cast<std::uint32_t>(options_.rank),
                          static_cast<std::uint32_t>(options_.world_size), fresh_nonce()};
        say(FrameType::hello, encode_hello(hello));
        const std::string host_nonce = expect(FrameType::challenge);
        if (host_nonce.size() != nonce_size) throw ProtocolError("it sent a challenge of the wrong size");
        say(FrameType::proof, make_proof(options_.secret, Side::guest, hello, host_nonce));
        const std::string proof = expect(FrameType::welcome);
        if (!same_proof(proof, make_proof(options_.secret, Side::host, hello, host_nonce)))
            throw Error(
                Status::bootstrap,
                fmt::format("what answers at {} does not know this job's secret; is MASTER_PORT another "
                            "job's, or does HOCKET_SECRET differ between ranks?",
                            host_.text()));
    }

    // From here on rank 0 counts this rank as a member: there is no second attempt, and what fails here is
    // told to it.
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
            // Closing with unread bytes would reset the connection and lose what was said.
            const auto until = Clock::now() + farewell_time;
            while (poll_until({&entry, 1}, until) > 0 && link_.receive() == Link::State::open) continue;
        } catch (const std::exception&) {  // what was to be told is thrown anyway
        }
    }

    void await_start() {
        std::string missing = "other ranks";
        try {
            for (;;) {
                const Frame frame = next_frame(end());
                if (frame.type == FrameType::start) break;
                if (frame.type == FrameType::abort) throw_aborted(frame.payload);
                if (frame.type != FrameType::waiting) throw ProtocolError("it sent an unexpected message");
                missing = printable(frame.payload);
                if (Clock::now() >= deadline_) throw_missing(missing);
            }
        } catch (const TryAgain& error) {
            if (Clock::now() >= deadline_) throw_missing(missing);
            throw Error(Status::bootstrap,
                        fmt::format("rank 0 at {} ended before all ranks had joined ({}); look at "
                                    "the output of rank 0 first",
                                    host_.text(), error.what()));
        }
        link_.parser().set_limit(max_member_payload);
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

    std::string expect(FrameType type) {
        Frame frame = next_frame(end());
        if (frame.type == FrameType::refused)
            throw Error(Status::bootstrap, fmt::format("rank 0 at {} turned rank {} away: {}", host_.text(),
                                                       options_.rank, printable(frame.payload)));
        if (frame.type != type) throw ProtocolError("it sent an unexpected message");
        return std::move(frame.payload);
    }

    Frame next_frame(Clock::time_point until) {
        for (;;) {
            if (auto frame = link_.parser().next()) return std::move(*frame);
            pollfd entry{link_.fd(), POLLIN, 0};
            if (poll_until({&entry, 1}, until) == 0)
                throw TryAgain("it accepts connections but does not answer");
            const Link::State state = link_.receive();
            if (state == Link::State::open) continue;
            if (auto frame = link_.parser().next()) return std::move(*frame);
            throw TryAgain(state == Link::State::closed  ? "it closed the connection"
                           : state == Link::State::reset ? "it reset the connection"
                                                         : "the connection failed: " + link_.failure());
        }
    }

    const BootstrapOptions& options_;
    const std::function<void()>& prepare_;
    const Endpoint host_;
    const Clock::time_point deadline_;
    Link link_;
    bool is_reached_ = false;
};

}  // namespace

Link join_host(const BootstrapOptions& options, const std::function<void()>& prepare) {
    return Guest(options, prepare).run();
}

}  // namespace hocket::transport
