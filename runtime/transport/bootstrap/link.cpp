#include "runtime/transport/bootstrap/link.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "runtime/transport/net/transfer.hpp"

namespace hocket::transport {

void Link::queue(FrameType type, std::string_view payload) {
    queue(std::make_shared<const std::string>(encode_frame(type, payload)));
}

void Link::queue(std::shared_ptr<const std::string> frame) {
    if (is_open() && !stopping_ && error_ == 0) output_.push_back(std::move(frame));
}

void Link::flush() {
    while (is_open() && !output_.empty()) {
        const std::string& frame = *output_.front();
        const Transfer transfer = send_some(socket_, std::string_view(frame).substr(sent_));
        if (transfer.has_ended) {
            if (error_ == 0) error_ = transfer.error;
            output_.clear(), sent_ = 0;
            break;
        }
        if (transfer.bytes == 0) return;
        sent_ += transfer.bytes;
        if (sent_ == frame.size()) output_.pop_front(), sent_ = 0;
    }
    if (is_open() && stopping_) shutdown(fd(), SHUT_WR);
}

Link::State Link::receive() {
    // Bounded, so that one busy peer cannot keep the reader from the others; poll(2) reports the rest, but
    // not what is in the process already.
    char bytes[65536];
    for (int rounds = 0; rounds < 16 || socket_.has_more(); ++rounds) {
        const Transfer transfer = receive_some(socket_, bytes);
        if (transfer.has_ended) {
            if (error_ == 0) error_ = transfer.error;
            return error_ == 0                               ? State::closed
                   : error_ == damaged_record                ? State::damaged
                   : error_ == ECONNRESET || error_ == EPIPE ? State::reset
                                                             : State::failed;
        }
        if (transfer.bytes == 0) return State::open;
        silence_.heard();
        parser_.feed({bytes, transfer.bytes});
        if (transfer.bytes < sizeof bytes) return State::open;
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
