// Where processes come to join: a socket that listens, and those that came to it, have proved that they know
// the secret, and wait until rank 0 takes them in. That may be long after they came: a communicator takes new
// processes in when its program finds the time (hkt_comm_grow).
#pragma once

#include <deque>
#include <string>

#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::transport {

// One thread at a time.
class Lobby {
  public:
    Lobby(Socket listener, std::string secret);
    // listener: stays the caller's, and open longer than this. Throws Error(transport), as the above.
    Lobby(int listener, std::string secret);

    // How many newcomers wait. Those that have gone again do not count, nor those whose host has not answered
    // for 10 s; those that come just now may not count yet, but will do in a later call. Never waits. Throws
    // Error(transport).
    std::size_t waiting();

    // Who takes the processes in.
    class Host {
      public:
        // Why it does not take this one; "": it does.
        virtual std::string objection_to(const Hello& hello) const = 0;
        virtual void admit(Admitted guest) = 0;

      protected:
        ~Host() = default;
    };
    // Gives the host those that wait, and from now on everybody who comes while loop() turns. The host must
    // stay as long as that does.
    void open_to(Host& host);
    // Tells those that wait, and all that come while this looks, that they are not taken in, and why.
    void turn_all_away(const std::string& why);
    SocketLoop& loop() { return loop_; }
    Admission& admission() { return admission_; }

  private:
    AdmissionTerms terms(std::string secret);

    const Socket own_listener_;  // closed if it is the caller's
    Host* host_ = nullptr;       // null: all wait
    std::deque<Admitted> waiting_;
    SocketLoop loop_{SocketLoop::Way::poll};
    Admission admission_;
};

}  // namespace hocket::transport
