#include "runtime/transport/bootstrap/link.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace hocket::transport {

void Link::queue(FrameType type, std::string_view payload) {
    queue(std::make_shared<const std::string>(encode_frame(type, payload)));
}

void Link::queue(std::shared_ptr<const std::string> frame) {
    if (is_open() && !stopping_) output_.push_back(std::move(frame));
}

void Link::flush() {
    while (is_open() && !output_.empty()) {
        const std::string& frame = *output_.front();
        const ssize_t n = send(fd(), frame.data() + sent_, frame.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            if (error_ == 0) error_ = errno;
            output_.clear(), sent_ = 0;
            break;
        }
        sent_ += static_cast<std::size_t>(n);
        if (sent_ == frame.size()) output_.pop_front(), sent_ = 0;
    }
    if (is_open() && stopping_) shutdown(fd(), SHUT_WR);
}

Link::State Link::receive() {
    // Bounded, so that one busy peer cannot keep the reader from the others; poll(2) reports the rest.
    char bytes[65536];
    for (int rounds = 0; rounds < 16;) {
        const ssize_t n = recv(fd(), bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::open;
        if (n < 0 && error_ == 0) error_ = errno;
        if (n <= 0)
            return error_ == 0                               ? State::closed
                   : error_ == ECONNRESET || error_ == EPIPE ? State::reset
                                                             : State::failed;
        silence_.heard();
        parser_.feed({bytes, static_cast<std::size_t>(n)});
        if (static_cast<std::size_t>(n) < sizeof bytes) return State::open;
        ++rounds;
    }
    return State::open;
}

void Link::stop_sending() {
    stopping_ = true;
    flush();
}

void Link::close() {
    socket_.close();
    output_.clear();
    sent_ = 0;
}

}  // namespace hocket::transport
