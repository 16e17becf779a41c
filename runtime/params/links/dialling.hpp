// Makes a connection on a thread of its own, for a thread that has a loop.
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
        bool is_refused = false;  // for the secret or the version, or what listens there is something else
    };
    // Called on the mailbox's thread, once, and not after this is destroyed.
    using Done = std::function<void(Result result)>;

    // Throws Error(out_of_memory) if there is no further thread.
    Dialling(transport::Mailbox& mailbox, transport::Dial dial, std::chrono::milliseconds patience,
             Done done);
    ~Dialling();  // gives up, and waits for the thread: up to 5 s if a name server is being asked
    Dialling(const Dialling&) = delete;

  private:
    std::shared_ptr<std::atomic<bool>> is_given_up_;
    std::thread thread_;
};

}  // namespace hocket::params
