// Several senders to one port of a host fill the queue in front of its link: all messages then wait there,
// and what overflows is sent again. So the receiver says how much each may have in flight, by the windows of
// their connections, which the kernel tells with every acknowledgement (docs/decisions/streams-fan-in.md).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/transport/streams/stream.hpp"

namespace hocket::transport {

// What each of several senders to a port may have in flight: what keeps the link busy, and what piles up
// while this process does other things.
class FanInShare {
  public:
    // What came from several senders since the last look.
    struct Look {
        std::size_t senders = 0, bytes = 0;
        std::chrono::duration<double> time{0};        // since the last look
        std::chrono::duration<double> round_trip{0};  // without a queue, the longest of the senders'
        std::size_t segment = 0;                      // bytes of a packet
        double piled_up = 0;  // bytes of one sender that lay unread when it was their turn, the most of all
    };
    void add(const Look& look);

    // Before the first look: `unlimited` (arrivals.hpp).
    std::size_t bytes_for(std::size_t senders) const;

  private:
    std::size_t segment_ = 0;
    double rate_ = 0;        // bytes per second, of all together
    double round_trip_ = 0;  // the shortest of all looks
    double piled_up_ = 0;
};

// The ports of this host by which a communicator's streams come. Not thread-safe.
class FanIn {
  public:
    // The stream must live as long as this does. Those that come from this host are not paced.
    void add(Stream& stream);

    // Call when streams have moved. The kernel is asked once a port's senders have sent about as much as they
    // may have in flight.
    void look();

  private:
    struct Sender {
        Stream* stream;
        std::uint64_t come = 0;                   // bytes, at the last look
        std::chrono::microseconds round_trip{0};  // the shortest
    };
    struct Port {
        std::string address;
        std::vector<Sender> senders;
        std::uint64_t come = 0, next_look_at = 0;  // bytes of all
        Clock::time_point looked_at{};
        int looks_without = 0;  // several senders, in a row
        bool is_free = true;    // the kernel's windows count
        FanInShare share;
    };

    static void look_at(Port& port);
    static void share_out(Port& port, std::size_t senders);

    std::vector<Port> ports_;
};

}  // namespace hocket::transport
