#include "runtime/transport/bootstrap/lobby.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "runtime/transport/bootstrap/join.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::transport {
namespace {

// Returns true if the peer's kernel has reported that the process closed its end, or no longer exists.
bool has_gone(const Socket& socket) {
    pollfd entry{socket.fd(), POLLRDHUP, 0};
    return poll_until({&entry, 1}, Clock::now()) > 0;
}

// Turns a guest away after its welcome, when it no longer expects a refusal.
void turn_away(const Admitted& guest, const std::string& why) {
    put(guest.socket, encode_frame(FrameType::abort, encode_abort(Error(Status::bootstrap, why))));
}

}  // namespace

Lobby::Lobby(Socket listener, std::string secret)
    : own_listener_(std::move(listener)), admission_(loop_, own_listener_.fd(), terms(std::move(secret))) {}

Lobby::Lobby(int listener, std::string secret) : admission_(loop_, listener, terms(std::move(secret))) {}

AdmissionTerms Lobby::terms(std::string secret) {
    return {"rank 0", std::move(secret), "wrong secret (HOCKET_SECRET must be the same on all ranks)",
            [this](Admitted guest) {
                if (host_) return host_->admit(std::move(guest));
                notice_hosts_end(guest.socket.fd());
                waiting_.push_back(std::move(guest));
            },
            [this](const Hello& hello) { return host_ ? host_->objection_to(hello) : ""; }};
}

std::size_t Lobby::waiting() {
    admission_.begin_again();
    loop_.turn(Clock::now());
    std::erase_if(waiting_, [](const Admitted& guest) { return has_gone(guest.socket); });
    return static_cast<std::size_t>(
        std::count_if(waiting_.begin(), waiting_.end(),
                      [](const Admitted& guest) { return guest.hello.rank == rank_of_newcomers; }));
}

void Lobby::open_to(Host& host) {
    host_ = &host;
    for (Admitted& guest : std::exchange(waiting_, {})) {
        if (has_gone(guest.socket)) continue;
        forget_hosts_end(guest.socket.fd());  // from now on heartbeats detect that
        const std::string why = host.objection_to(guest.hello);
        why.empty() ? host.admit(std::move(guest)) : turn_away(guest, why);
    }
}

void Lobby::turn_all_away(const std::string& why) {
    waiting();  // also takes those that have just come
    for (Admitted& guest : std::exchange(waiting_, {})) turn_away(guest, why);
    admission_.refuse_all(why);
}

}  // namespace hocket::transport
