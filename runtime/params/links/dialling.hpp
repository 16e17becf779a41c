// Makes a connection on a separate thread, for a thread that runs an event loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/mailbox.hpp"

namespace hocket::params {

class Dialling {
  public:
    struct Result {
        transport::Socket socket;  // closed if there is an error
        std::string error;
        // Because of the secret or the version, or because the listener is another program.
        bool is_refused = false;
    };
    // Called once, on the mailbox's thread, and not after this object is destroyed.
    using Done = std::function<void(Result result)>;

    // Throws Error(out_of_memory) if no thread can be started.
    Dialling(transport::Mailbox& mailbox, transport::Dial dial, std::chrono::milliseconds patience,
             Done done);
    // Cancels the attempt and waits for the thread: up to 5 s if a name server is being asked.
    ~Dialling();
    Dialling(const Dialling&) = delete;

  private:
    std::shared_ptr<std::atomic<bool>> is_given_up_;
    std::thread thread_;
};

}  // namespace hocket::params
