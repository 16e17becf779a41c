// The place where processes come to join: a socket that listens, and the processes that came to it, have
// proved that they know the secret, and wait until rank 0 takes them in. That may be long after they came: a
// communicator takes in new processes when its program calls hkt_comm_grow.
#pragma once

#include <deque>
#include <string>

#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::transport {

// For one thread at a time.
class Lobby {
  public:
    Lobby(Socket listener, std::string secret);
    // listener: still owned by the caller; must outlive this object. Throws Error(transport), as the
    // constructor above does.
    Lobby(int listener, std::string secret);

    // Returns how many newcomers wait. Those that have gone again do not count, nor do those whose host has
    // not answered for 10 s; those that are just arriving may count only in a later call. Never waits. Throws
    // Error(transport).
    std::size_t waiting();

    // Takes in the processes.
    class Host {
      public:
        // Returns why it does not take this process in; "" if it does.
        virtual std::string objection_to(const Hello& hello) const = 0;
        virtual void admit(Admitted guest) = 0;

      protected:
        ~Host() = default;
    };
    // Passes to the host the processes that wait, and from now on all that come while loop() turns. The host
    // must live as long as that lasts.
    void open_to(Host& host);
    // Tells the processes that wait, and all that come while this call looks, that they are not taken in, and
    // why.
    void turn_all_away(const std::string& why);
    SocketLoop& loop() { return loop_; }
    Admission& admission() { return admission_; }

  private:
    AdmissionTerms terms(std::string secret);

    const Socket own_listener_;  // not open if the listener is the caller's
    Host* host_ = nullptr;       // null: processes wait
    std::deque<Admitted> waiting_;
    SocketLoop loop_{SocketLoop::Way::poll};
    Admission admission_;
};

}  // namespace hocket::transport
