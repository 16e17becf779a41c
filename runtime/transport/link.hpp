// A framed connection to one other member: what is waiting to be sent, and what has arrived in part.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "runtime/transport/frame.hpp"
#include "runtime/transport/socket.hpp"

namespace hocket::transport {

class Link {
  public:
    enum class State { open, closed, reset };

    Link() = default;
    Link(Socket socket, std::size_t max_payload)
        : socket_(std::move(socket)), parser_(max_payload), last_heard_(Clock::now()) {}

    bool is_open() const { return socket_.is_open(); }
    int fd() const { return socket_.fd(); }
    Clock::time_point last_heard() const { return last_heard_; }
    FrameParser& parser() { return parser_; }

    void queue(FrameType type, std::string_view payload = {});
    void queue(std::shared_ptr<const std::string> frame);  // shared by the links that send the same
    bool has_output() const { return !output_.empty(); }

    // Sends what the socket takes now. A connection that is broken drops its output; receive() tells.
    void flush();

    // Takes what has arrived: the frames are then in parser().
    State receive();

    // The peer reads end-of-file behind what is queued now; what is queued later is dropped.
    void stop_sending();
    void close();

  private:
    Socket socket_;
    FrameParser parser_{0};
    Clock::time_point last_heard_{};
    std::deque<std::shared_ptr<const std::string>> output_;
    std::size_t sent_ = 0;  // of output_.front()
    bool stopping_ = false;
};

}  // namespace hocket::transport
