// A connection to one other member, in frames, with the output still to be sent and the incomplete input.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "runtime/transport/bootstrap/silence.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/kernel_transfer.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

class Link {
  public:
    // closed, reset: by the peer's kernel. failed: this host's kernel has heard nothing for very long.
    // damaged: encrypted data arrived changed.
    enum class State { open, closed, reset, failed, damaged };

    Link() = default;
    Link(Socket socket, std::size_t max_payload) : socket_(std::move(socket)), parser_(max_payload) {}

    bool is_open() const { return socket_.is_open(); }
    int fd() const { return socket_.fd(); }
    Silence& silence() { return silence_; }
    Answers answers() const { return answers_of(socket_); }
    FrameParser& parser() { return parser_; }

    void queue(FrameType type, std::string_view payload = {});
    void queue(std::shared_ptr<const std::string> frame);  // shared by all links that send the same frame
    bool has_output() const { return !output_.empty(); }

    // Sends as much as the socket accepts now. If the connection is broken, its output is dropped; receive()
    // reports that.
    void flush();

    // Reads the bytes that have arrived; the frames are then in parser().
    State receive();
    std::string failure() const { return Transfer{0, true, error_}.why(); }

    // The peer reads end-of-file after the frames that are queued now; frames queued later are dropped.
    void stop_sending();
    void close();

  private:
    Socket socket_;
    FrameParser parser_{0};
    Silence silence_;
    std::deque<std::shared_ptr<const std::string>> output_;
    std::size_t sent_ = 0;  // of output_.front()
    int error_ = 0;         // the first error of the kernel, which reports each only once
    bool stopping_ = false;
};

}  // namespace hocket::transport
