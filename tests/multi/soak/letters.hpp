// Messages between two ranks, any number of them, beside a step's collectives.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "capi/hocket.h"
#include "tests/multi/soak/chance.hpp"

namespace hocket::soak {

class Letters {
  public:
    // chance: the same on all ranks, so that all know all messages.
    Letters(Chance& chance, hkt_comm* comm, std::size_t most_bytes);

    // check(status, what): of each call.
    using Check = std::function<void(hkt_status, const std::string& what)>;
    // Starts this rank's sends and receives, those of each kind in their order.
    void start(Chance& own, const Check& check);
    // Waits for them in any order. Returns the error in the received messages, or "".
    std::string finish(Chance& own, const Check& check);

    std::size_t sent() const { return sends_.size(); }

  private:
    struct Letter {
        int from, to, tag;
        std::uint64_t contents;
        std::size_t bytes;
        std::vector<unsigned char> buffer = {};
        hkt_request* request = nullptr;

        std::string text() const;
        void fill();
        std::string fault() const;
    };

    hkt_comm* comm_;
    std::vector<Letter> sends_, receives_;  // of this rank
};

}  // namespace hocket::soak
