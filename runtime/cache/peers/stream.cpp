#include "runtime/cache/peers/stream.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr auto retry_time = 1ms;

}  // namespace

PeerStream::PeerStream(transport::SocketLoop& loop, transport::Socket socket, Owner& owner)
    : loop_(loop), socket_(std::move(socket)), owner_(owner), inbox_(owner) {
    transport::keep_alive(socket_);
    show_interest();
}

void PeerStream::send(const PeerHeader& header, const std::byte* payload, std::function<void()> let_go) {
    if (!is_open()) {
        if (let_go) let_go();
        return;
    }
    outbox_.push(header, payload, std::move(let_go));
    show_interest();  // it is sent together with all other messages of this turn
}

void PeerStream::close() {
    if (!is_open()) return;
    loop_.forget(socket_.fd());
    socket_.close();
    if (retry_) loop_.cancel(*std::exchange(retry_, std::nullopt));
    outbox_.clear();
}

// Receives before it sends, so that messages that have come are handled even if sending fails.
void PeerStream::ready(std::uint32_t events) {
    std::string why;
    if (inbox_.is_waiting()) {
        if (events & (EPOLLERR | EPOLLHUP)) why = "the connection was lost";
    } else if (events & ~static_cast<std::uint32_t>(EPOLLOUT)) {
        why = inbox_.receive(socket_);
    }
    if (why.empty() && (events & EPOLLOUT)) why = outbox_.flush(socket_);
    settle(why);
}

void PeerStream::receive() {
    retry_.reset();
    settle(inbox_.receive(socket_));
}

void PeerStream::settle(const std::string& why) {
    if (!why.empty()) {
        close();
        owner_.broke(why);
        return;
    }
    if (inbox_.is_waiting() && !retry_)
        retry_ = loop_.at(transport::Clock::now() + retry_time, [this] { receive(); });
    show_interest();
}

void PeerStream::show_interest() {
    const std::uint32_t interest =
        (inbox_.is_waiting() ? 0u : EPOLLIN) | (outbox_.is_empty() ? 0u : EPOLLOUT);
    if (!inbox_.is_waiting() && socket_.has_more()) loop_.again(socket_.fd());
    if (interest == interest_) return;
    loop_.watch(socket_.fd(), interest, *this);
    interest_ = interest;
}

}  // namespace hocket::cache
